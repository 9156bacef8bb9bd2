# A shell to test completions in; see ../run.
unsetopt beep global_rcs list_ambiguous
fpath=("$SCRIPTS" $fpath)
autoload -Uz compinit
compinit -u -D
zle -C all-matches complete-word _generic
zstyle ':completion:all-matches::::' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert yes
zstyle ':completion:*' list no
store() { print -r -- "${BUFFER//$'\n'/ }" >>"$OUT" }
zle -N store
bindkey -e
bindkey '^X' all-matches
bindkey '^T' store
bindkey '^B' backward-char
bindkey '^U' kill-whole-line
PS1='$ '
# What is typed from now on waits for the shell and means nothing to the terminal.
stty -icanon -isig -iexten -ixon -echo
: >"$OUT.ready"
