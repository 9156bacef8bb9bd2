# fish completion for zones-service(1). Generated: cargo run -p generate

complete -c zones-service -f
complete -c zones-service -s j -d 'as JSON'
complete -c zones-service -l json -d 'as JSON'
complete -c zones-service -s n -d 'show what would be done'
complete -c zones-service -l dry-run -d 'show what would be done'
complete -c zones-service -s R -x -a '(__fish_complete_directories)' -d 'alternate root'
complete -c zones-service -s t -x -d 'so many seconds for stop'
complete -c zones-service -l timeout -x -d 'so many seconds for stop'
complete -c zones-service -l now -x -d 'this time for slide'
complete -c zones-service -n 'not __fish_seen_subcommand_from slide start stop' -a 'slide start stop'
