# What an interactive shell of a box reads: a prompt without the user and host, which have no names here, then the user's
# own file.
PS1='\[\e[32m\]\w\[\e[0m\] \$ '
alias ls='ls --color=auto' grep='grep --color=auto'
[ -r ~/.bashrc ] && . ~/.bashrc
