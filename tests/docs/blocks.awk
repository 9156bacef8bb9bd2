# Turns a page of Markdown into the shell script that its blocks of shell are. Line N of the
# script is line N of the page, so that the shell's messages give the page's line numbers.
#
# Variables: page, the page's name; kinds, the kinds of blocks to run, between spaces.
# Each block of shell becomes `doc_block PAGE:LINE KIND`, its commands, and `doc_end`. A block of
# another kind becomes `doc_skip PAGE:LINE KIND REASON`. tests/docs/run --help has the rules.

function quoted(text) {
    gsub(/'/, "'\\''", text)
    return "'" text "'"
}
function wrong(text) {
    printf "%s:%d: %s\n", page, FNR, text >"/dev/stderr"
    bad = 1
}
# True if the text ends within single or double quotes, or continues on the next line.
function is_open(text,    i, c, quote) {
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (quote != "'" && c == "\\") { i++; if (i > length(text)) return 1 }
        else if (quote == "" && (c == "'" || c == "\"")) quote = c
        else if (c == quote) quote = ""
    }
    return quote != ""
}
# Ends the here-string with what a session types into the program of its last command.
function end_input() {
    if (input) script[input] = script[input] "'"
    input = 0
}
function begin_block(tag) {
    fence = FNR
    kind = marker == "" ? "shell" : marker
    running = 0
    console = tag == "console"
    command = ""
    commands = 0
    if (tag != "sh" && tag != "console") {
        if (marker != "") wrong("the marker `run: " marker "` stands before a block that is not shell")
        else if (tag == "") wrong("the block has no language: write sh, console or text")
        else if (tag !~ /^(text|yaml|ini|xml|json)$/) wrong("unknown language `" tag "`: expected sh, console, text, yaml, ini, xml or json")
        data = 1
        return
    }
    data = 0
    if (index(kinds, " " kind " ")) {
        running = 1
        script[FNR] = "doc_block " quoted(page ":" FNR) " " kind
    } else {
        script[FNR] = "doc_skip " quoted(page ":" FNR) " " kind " " quoted(reason)
    }
}
function end_block() {
    end_input()
    if (!data && console && !commands) wrong("no line of the session begins with a prompt")
    if (command != "") wrong("the quotes of the last command are not closed")
    if (running) script[FNR] = "doc_end"
    fence = 0
}
# Takes a line of a session: a command after a prompt, the rest of a command, what is typed
# after the prompt of zonecfg, or output.
function session_line(line,    name) {
    if (command == "" && match(line, /^[a-z][a-z0-9-]*[#$] /)) {
        # Typed in a zone (`web# `) or by a user (`joe$ `).
        end_input()
        commands++
        name = substr(line, 1, RLENGTH - 2)
        name = (substr(line, RLENGTH - 1, 1) == "#" ? "doc_in_zone " : "doc_as_user ") name
        line = substr(line, RLENGTH + 1)
        if (is_open(line)) wrong("a command in a zone or of a user is one line")
        if (running) script[FNR] = name " " quoted(line)
        last = FNR
    } else if (command != "" || line ~ /^[#$] /) {
        end_input()
        if (command == "") { commands++; line = substr(line, 3) }
        else command = command "\n"
        command = command line
        last = FNR
        if (running) script[FNR] = line
        if (!is_open(command)) command = ""
    } else if (running && commands && line ~ /^zonecfg:[^>]*> /) {
        sub(/^[^>]*> /, "", line)
        gsub(/'/, "'\\''", line)
        if (!input) { script[last] = script[last] " <<<\\"; line = "'" line }
        script[FNR] = line
        input = FNR
    }
}

{ script[FNR] = "" }
!fence && /^<!-- run:/ {
    if (marker != "") wrong("a marker follows a marker")
    marker = $0
    if (!sub(/^<!-- run: */, "", marker) || !sub(/ *-->$/, "", marker)) wrong("a marker is one line: <!-- run: KIND -->")
    reason = ""
    if (marker ~ /^no, ./) { reason = substr(marker, 5); marker = "no" }
    if (marker == "no" && reason == "") wrong("a block that is not run needs a reason: <!-- run: no, REASON -->")
    else if (marker !~ /^(no|setup|vm|network|fails)$/) wrong("unknown marker `run: " marker "`: expected setup, vm, network, fails, or no with a reason")
    next
}
!fence && /^ *```/ {
    match($0, /^ */)
    indent = RLENGTH
    tag = substr($0, indent + 4)
    begin_block(tag)
    marker = reason = ""
    next
}
!fence {
    if (marker != "") wrong("the marker `run: " marker "` stands before no block")
    marker = ""
    next
}
/^ *``` *$/ { end_block(); next }
data { next }
{
    line = substr($0, indent + 1)
    if (console) session_line(line)
    else if (running) script[FNR] = line
}
END {
    if (fence) wrong("the block of line " fence " has no end")
    if (marker != "") wrong("the marker `run: " marker "` stands before no block")
    if (bad) exit 1
    for (i = 1; i <= FNR; i++) print script[i]
}
