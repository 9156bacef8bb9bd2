//! The table of subcommands. It is pure data: tools/generate makes the manual page and the shells'
//! completions from it.

use cli::command::{Program, Subcommand};

/// The description of the program.
pub const PROGRAM: Program = Program {
    name: "zonesuspend",
    options: "",
    subcommands: SUBCOMMANDS,
    examples: &[
        "zonesuspend inspect /zones/web/suspend",
        "zonesuspend verify -k /root/web.key /zones/web/suspend",
    ],
};

/// Every subcommand, in the order in which the help lists them.
pub const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "inspect",
        form: "inspect [-j] [-k keyfile] image",
        help: "Shows the properties of a suspend image. Without the key these are only its date\n\
               and size, and they are not authenticated.\n\
               \t-j          as JSON\n\
               \t-k keyfile  the key: 32 bytes, 64 hexadecimal digits, or base64",
        examples: &[
            "zonesuspend inspect /zones/web/suspend",
            "zonesuspend inspect -j -k /root/web.key /zones/web/suspend",
        ],
    },
    Subcommand {
        name: "verify",
        form: "verify [-j] [-t threads] -k keyfile image",
        help: "Reads an image and checks that every part of it is unchanged. Does not change\n\
               the image.\n\
               \t-j          as JSON\n\
               \t-k keyfile  the key: 32 bytes, 64 hexadecimal digits, or base64\n\
               \t-t threads  number of threads, by default one for each processor",
        examples: &["zonesuspend verify -k /root/web.key /zones/web/suspend"],
    },
    Subcommand {
        name: "bench",
        form: "bench [-bjq] [-m MiB] [-n rounds] [-t threads] [-r folder] file",
        help: "Measures suspend and resume on this host: saves memory, filled from /usr and in\n\
               part with zeros, to the file, which must not exist and is removed, and restores\n\
               it; also measures the limits of the memory, the processors and the disk.\n\
               \t-b          only lz4 and the default with all threads, lz4 with one, and the\n\
               \t            limits they are compared with: for much memory\n\
               \t-j          as JSON\n\
               \t-m MiB      of memory, by default 1024; where it is not free twice, images are\n\
               \t            opened and not restored\n\
               \t-n rounds   of all measurements, by default 5; shown are the slowest and the\n\
               \t            median\n\
               \t-q          has QEMU write the same memory, too, by its own migration: plain,\n\
               \t            and through zstd -T0\n\
               \t-r folder   keeps the memory in files here, as on a file system of huge pages\n\
               \t-t threads  at most, by default one for each processor",
        examples: &["zonesuspend bench -m 4096 /zones/web/trial"],
    },
];
