# Start-up file of interactive shells in a box: sets a prompt without user and host, whose names mean nothing here, then sources
# the file of the user.
PS1='\[\e[32m\]\w\[\e[0m\] \$ '
alias ls='ls --color=auto' grep='grep --color=auto'
[ -r ~/.bashrc ] && . ~/.bashrc
