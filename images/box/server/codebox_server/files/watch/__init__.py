"""Changes of the working folder as a numbered stream: notices tell where to look, a look tells what has changed."""
