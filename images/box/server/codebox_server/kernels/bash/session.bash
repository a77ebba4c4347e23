# Sourced by the shell of the Bash kernel before the first cell. It reads the environment and code of cells as NUL-terminated
# strings from descriptor 20, and writes the exit status of each cell to descriptor 21 and variables to descriptor 22.
set +H +o history +m
unset HISTFILE
PS1= PS2= PS4='+ '
__codebox_last=0
__codebox_names=() __codebox_values=() __codebox_code= __codebox_cell=0

exit() {
    # An interactive shell would print `exit` on stderr.
    builtin exit "$@" 2>/dev/null
}

__codebox_begin() {
    builtin local count name value
    __codebox_names=() __codebox_values=()
    IFS= builtin read -r -d '' -u 20 __codebox_cell
    IFS= builtin read -r -d '' -u 20 count
    while ((count-- > 0)); do
        IFS= builtin read -r -d '' -u 20 name
        IFS= builtin read -r -d '' -u 20 value
        __codebox_names+=("$name")
        # A leading `=` marks a variable that was set.
        __codebox_values+=("${!name+=}${!name-}")
        builtin export "$name=$value"
    done
    IFS= builtin read -r -d '' -u 20 __codebox_code
    return "$__codebox_last"
}

__codebox_end() {
    __codebox_last=$?
    builtin local index
    for index in "${!__codebox_names[@]}"; do
        if [[ -n ${__codebox_values[index]} ]]; then
            builtin export "${__codebox_names[index]}=${__codebox_values[index]#=}"
        else
            builtin unset "${__codebox_names[index]}"
        fi
    done
    __codebox_names=() __codebox_values=()
    builtin printf '%s %s\n' "$__codebox_cell" "$__codebox_last" >&21
}

# Changes the environment permanently. Values have a leading `=`; an empty text removes the variable.
__codebox_change() {
    builtin local __codebox_count __codebox_name __codebox_value
    IFS= builtin read -r -d '' -u 20 __codebox_count
    while ((__codebox_count-- > 0)); do
        IFS= builtin read -r -d '' -u 20 __codebox_name
        IFS= builtin read -r -d '' -u 20 __codebox_value
        # Like the initial variables, it is not listed as a variable of the user.
        __codebox_initial+=$__codebox_name$'\n'
        if [[ -n $__codebox_value ]]; then
            builtin export "$__codebox_name=${__codebox_value#=}"
        else
            builtin unset -v "$__codebox_name"
        fi
    done 2>/dev/null
    builtin printf 'changed 0\n' >&21
    return "$__codebox_last"
}

# Writes name, attributes, length and the start of the value of each variable that was defined since the start, each terminated
# by NUL, and one NUL at the end. It runs in a subshell, so that the shell does not change.
__codebox_variables() {
    (
        set +eux
        builtin unalias -a
        builtin local __codebox_name __codebox_text __codebox_item __codebox_count=0
        while IFS= builtin read -r __codebox_name; do
            [[ $__codebox_initial == *$'\n'"$__codebox_name"$'\n'* ]] && continue
            [[ $__codebox_name == __codebox_* || $__codebox_name == BASH_* ]] && continue
            [[ $__codebox_name =~ ^(_|PIPESTATUS|FUNCNAME|OLDPWD|PROMPT_COMMAND)$ ]] && continue
            ((++__codebox_count > 1000)) && break
            builtin local -n __codebox_value=$__codebox_name
            if [[ ${__codebox_value@a} == *[aA]* ]]; then
                __codebox_text=
                for __codebox_item in "${__codebox_value[@]:0:20}"; do
                    __codebox_text+="${__codebox_text:+ }${__codebox_item:0:100}"
                done
                ((${#__codebox_value[@]} > 20)) && __codebox_text+=" …"
                __codebox_text="(${__codebox_text:0:500})"
                __codebox_item=${#__codebox_value[@]}
            else
                __codebox_text=${__codebox_value:0:500}
                __codebox_item=${#__codebox_value}
            fi
            builtin printf '%s\0%s\0%s\0%s\0' \
                "$__codebox_name" "${__codebox_value@a}" "$__codebox_item" "$__codebox_text" >&22
            builtin unset -n __codebox_value
        done < <(builtin compgen -A variable)
        builtin printf '\0' >&22
    ) 2>/dev/null
    return "$__codebox_last"
}
__codebox_initial=$'\n'$(compgen -A variable)$'\n'
PROMPT_COMMAND=__codebox_end
