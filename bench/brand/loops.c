/*
 * The kinds of loops that UnixBench measures, written anew: loops NAME SECONDS prints how
 * often, in how many seconds of CPU time (its own and its children's), in how many on the
 * clock. It is linked statically, so that every place runs the same code.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double cpu(void)
{
    struct rusage own, children;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    return of(own.ru_utime) + of(own.ru_stime) + of(children.ru_utime) + of(children.ru_stime);
}

static void report(unsigned long count, double cpu_time, double wall)
{
    printf("%lu %.6f %.6f\n", count, cpu_time, wall);
    exit(0);
}

static double end;

/* Looked at every so often: reading the clock is no part of what is measured. */
static int is_over(unsigned long count, unsigned long often)
{
    return count % often == 0 && now() >= end;
}

static unsigned long syscalls(void)
{
    unsigned long count = 0;
    do {
        close(dup(0));
        syscall(SYS_getpid);
        getuid();
        umask(022);
    } while (!is_over(++count, 1000));
    return count;
}

static unsigned long unames(void)
{
    struct utsname names;
    unsigned long count = 0;
    do
        uname(&names);
    while (!is_over(++count, 100));
    return count;
}

static unsigned long pipes(void)
{
    char block[512] = { 0 };
    int ends[2];
    unsigned long count = 0;
    if (pipe(ends))
        die("pipe");
    do
        if (write(ends[1], block, sizeof block) != sizeof block ||
            read(ends[0], block, sizeof block) != sizeof block)
            die("pipe");
    while (!is_over(++count, 500));
    return count;
}

/* Two processes hand a number to and fro. */
static unsigned long context(void)
{
    int there[2], back[2], status;
    unsigned long count = 0, number = 0;
    if (pipe(there) || pipe(back))
        die("pipe");
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        while (read(there[0], &number, sizeof number) == sizeof number)
            if (write(back[1], &number, sizeof number) != sizeof number)
                break;
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    do
        if (write(there[1], &count, sizeof count) != sizeof count ||
            read(back[0], &number, sizeof number) != sizeof number || number != count)
            die("pipe");
    while (!is_over(++count, 100));
    close(there[1]);
    waitpid(child, &status, 0);
    return count;
}

static unsigned long spawns(void)
{
    unsigned long count = 0;
    int status;
    do {
        pid_t child = fork();
        if (child < 0)
            die("fork");
        if (child == 0)
            _exit(0);
        waitpid(child, &status, 0);
    } while (!is_over(++count, 10));
    return count;
}

/* execs NAME: the program replaces itself until the time is over. */
static void execs(char **words, double begin, unsigned long count)
{
    char text[3][40];
    if (now() >= end)
        report(count, cpu(), now() - begin);
    snprintf(text[0], sizeof text[0], "%.6f", begin);
    snprintf(text[1], sizeof text[1], "%.6f", end);
    snprintf(text[2], sizeof text[2], "%lu", count + 1);
    char *again[] = { words[0], "again", text[0], text[1], text[2], NULL };
    execv("/proc/self/exe", again);
    die("exec");
}

/* Copies a file of `blocks` blocks in blocks of `size`, over and over. */
static unsigned long copies(size_t size, int blocks)
{
    char *block = calloc(1, size);
    unsigned long count = 0;
    int from = open("copied.from", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int to = open("copied.to", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (!block || from < 0 || to < 0)
        die("copied");
    unlink("copied.from");
    unlink("copied.to");
    for (int i = 0; i < blocks; i++)
        if (write(from, block, size) != (ssize_t)size)
            die("write");
    do {
        if (lseek(from, 0, SEEK_SET) || lseek(to, 0, SEEK_SET))
            die("seek");
        for (int i = 0; i < blocks; i++) {
            if (read(from, block, size) != (ssize_t)size || write(to, block, size) != (ssize_t)size)
                die("copy");
            count++;
        }
    } while (now() < end);
    return count;
}

/* Each script starts a few programs on a file of words; so many run at a time. */
static unsigned long scripts(int at_once)
{
    static const char script[] =
        "sort >s.$$ words && grep -c root s.$$ >g.$$; od s.$$ | sort -n >o.$$; "
        "tee t.$$ <g.$$ >/dev/null; wc -l s.$$ o.$$ >w.$$; rm -f s.$$ g.$$ o.$$ t.$$ w.$$";
    unsigned long count = 0;
    int status;
    do {
        for (int i = 0; i < at_once; i++) {
            pid_t child = fork();
            if (child < 0)
                die("fork");
            if (child == 0) {
                execl("/bin/sh", "sh", "-c", script, (char *)NULL);
                _exit(127);
            }
        }
        for (int i = 0; i < at_once; i++)
            if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
                fprintf(stderr, "loops: a script failed\n");
                exit(1);
            }
        count += (unsigned long)at_once;
    } while (now() < end);
    return count;
}

int main(int argc, char **words)
{
    if (argc == 5 && strcmp(words[1], "again") == 0) {
        end = atof(words[3]);
        execs(words, atof(words[2]), strtoul(words[4], NULL, 10));
    }
    if (argc != 3) {
        fprintf(stderr, "usage: loops NAME SECONDS\n");
        return 2;
    }
    const char *name = words[1];
    double begin = now(), used = cpu();
    end = begin + atof(words[2]);
    unsigned long count;
    if (strcmp(name, "execl") == 0)
        execs(words, begin, 0);
    if (strcmp(name, "syscall") == 0)
        count = syscalls();
    else if (strcmp(name, "uname") == 0)
        count = unames();
    else if (strcmp(name, "pipe") == 0)
        count = pipes();
    else if (strcmp(name, "context") == 0)
        count = context();
    else if (strcmp(name, "spawn") == 0)
        count = spawns();
    else if (strcmp(name, "copy256") == 0)
        count = copies(256, 500);
    else if (strcmp(name, "copy1024") == 0)
        count = copies(1024, 2000);
    else if (strcmp(name, "copy4096") == 0)
        count = copies(4096, 8000);
    else if (strncmp(name, "shell", 5) == 0 && atoi(name + 5) > 0)
        count = scripts(atoi(name + 5));
    else {
        fprintf(stderr, "loops: %s: no such loop\n", name);
        return 2;
    }
    report(count, cpu() - used, now() - begin);
    return 0;
}
