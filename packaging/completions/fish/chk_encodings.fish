# fish completion for chk_encodings(1). Generated: cargo run -p generate

complete -c chk_encodings -s a -d 'what the file says, and remarks'
complete -c chk_encodings -s c -x -d 'the highest classification'
complete -c chk_encodings -s R -x -a '(__fish_complete_directories)' -d 'alternate root'
