"""What an image contains. Its build writes the lists: code of a box could make any program report anything."""
