/* Calls to the operating system that fail as they are told to.
 *
 * The kernel (seccomp) turns each call about files into a signal, and the handler makes the call, or has it fail. So
 * calls that do not go through libc are met as well: Rust's rustix makes such. A process that has loaded this library
 * starts no other program, which would get the signals without the handler.
 *
 * FAULTS holds rules, one a line, with spaces between: CALLS PATTERN WHEN HOW NUMBER.
 *   CALLS    names with commas between, or *: open (which creates nothing), create, write, close (of what is open for
 *            writing), rename, link, sync, unlink, truncate, mkdir.
 *   PATTERN  of the path, as of fnmatch; of a rename or a link, of the new path.
 *   WHEN     3 for the third call that the rule is about, 3+ for the third and all after it.
 *   HOW      before: the call does nothing and fails with the error NUMBER. after: it is done, and fails. lost: what
 *            the file held is gone, and the call fails. short: half of a write is written. flip, torn and cut: a write
 *            tells of success, and the file has one other bit, 12 bytes before the write's end; zeros in its second
 *            half; or nothing after its first half, so that the file ends there or has zeros. slow: it takes NUMBER
 *            milliseconds longer. meet: it waits until NUMBER such calls are under way at once, or half a minute.
 * A call follows the first rule that is about it. A close closes in any case, as on Linux; that of a descriptor that
 * is not open aborts the process.
 *
 * Only calls about paths below FAULTS_BELOW count. Each of them adds a line to the file FAULTS_LOG: its name and its
 * path, and after them how it failed; meetings add "met" or "alone". A program that sets all three anew calls
 * `faults`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* A call that the filter lets pass, by the address after its instruction. As the kernel, it returns errors negated. */
long faults_call(long number, long a, long b, long c, long d, long e);
extern char faults_called[];
#if defined __x86_64__
__asm__(".text\nfaults_call:\nmov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nmov %r8, %r10\n"
        "mov %r9, %r8\nsyscall\nfaults_called: ret\n");
#define ARGUMENTS(u)                                                                                                   \
    {(u)->uc_mcontext.gregs[REG_RDI], (u)->uc_mcontext.gregs[REG_RSI], (u)->uc_mcontext.gregs[REG_RDX],               \
     (u)->uc_mcontext.gregs[REG_R10], (u)->uc_mcontext.gregs[REG_R8]}
#define RESULT(u) (u)->uc_mcontext.gregs[REG_RAX]
#elif defined __aarch64__
__asm__(".text\nfaults_call:\nmov x8, x0\nmov x0, x1\nmov x1, x2\nmov x2, x3\nmov x3, x4\nmov x4, x5\nsvc #0\n"
        "faults_called: ret\n");
#define ARGUMENTS(u)                                                                                                   \
    {(u)->uc_mcontext.regs[0], (u)->uc_mcontext.regs[1], (u)->uc_mcontext.regs[2], (u)->uc_mcontext.regs[3],          \
     (u)->uc_mcontext.regs[4]}
#define RESULT(u) (u)->uc_mcontext.regs[0]
#else
#error "its calls of the kernel are written for x86-64 and aarch64"
#endif

/* What a call is about: an open file, a path, a path in an open folder, or the second such path. */
enum about { FD, PATH, AT, NEW_PATH, NEW_AT };
static const struct {
    long number;
    const char *name;
    enum about about;
} CALLS[] = {
    {SYS_openat, "open", AT},        {SYS_write, "write", FD},         {SYS_pwrite64, "write", FD},
    {SYS_writev, "write", FD},       {SYS_close, "close", FD},         {SYS_renameat, "rename", NEW_AT},
    {SYS_renameat2, "rename", NEW_AT}, {SYS_linkat, "link", NEW_AT},   {SYS_fsync, "sync", FD},
    {SYS_fdatasync, "sync", FD},     {SYS_unlinkat, "unlink", AT},     {SYS_ftruncate, "truncate", FD},
    {SYS_mkdirat, "mkdir", AT},
#ifdef SYS_open
    {SYS_open, "open", PATH},        {SYS_rename, "rename", NEW_PATH}, {SYS_link, "link", NEW_PATH},
    {SYS_unlink, "unlink", PATH},    {SYS_rmdir, "unlink", PATH},      {SYS_mkdir, "mkdir", PATH},
#endif
};
#define COUNT (sizeof CALLS / sizeof *CALLS)

#define MOST_RULES 8
struct rule {
    char calls[128], pattern[PATH_MAX], how[8];
    int first, is_lasting, number;
    atomic_int matched, company, is_over;
};
static struct rule rules[MOST_RULES];
static int rule_count;
static char log_path[PATH_MAX], below[PATH_MAX];

static void note(const char *line) {
    long file = faults_call(SYS_openat, AT_FDCWD, (long)log_path, O_WRONLY | O_APPEND | O_CREAT, 0666, 0);
    long length = (long)strlen(line);
    if (faults_call(SYS_write, file, (long)line, length, 0, 0) != length)
        abort();
    faults_call(SYS_close, file, 0, 0, 0, 0);
}

static long link_of(long fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%ld", fd);
    long length = faults_call(SYS_readlinkat, AT_FDCWD, (long)link, (long)path, PATH_MAX - 1, 0);
    path[length < 0 ? 0 : length] = 0;
    return length;
}

static void join(long folder, const char *name, char *path) {
    path[0] = 0;
    if (*name == '/')
        snprintf(path, PATH_MAX, "%s", name);
    else if ((int)folder == AT_FDCWD)
        faults_call(SYS_getcwd, (long)path, PATH_MAX, 0, 0, 0);
    else
        link_of(folder, path);
    size_t length = strlen(path);
    if (*name != '/' && strcmp(name, ".") != 0)
        snprintf(path + length, PATH_MAX - length, "/%s", name);
}

static void path_of(enum about about, const long *given, char *path) {
    switch (about) {
    case FD: link_of(given[0], path); break;
    case PATH: join(AT_FDCWD, (const char *)given[0], path); break;
    case AT: join(given[0], (const char *)given[1], path); break;
    case NEW_PATH: join(AT_FDCWD, (const char *)given[1], path); break;
    case NEW_AT: join(given[2], (const char *)given[3], path); break;
    }
}

static int has_name(const char *names, const char *name) {
    size_t length = strlen(name);
    for (const char *at = names; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (*at == '*' || (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length])))
            return 1;
    }
    return 0;
}

static void wait_milliseconds(long milliseconds) {
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    faults_call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0);
}

static void meet(struct rule *rule) {
    if (atomic_fetch_add(&rule->company, 1) + 1 >= rule->number && !atomic_exchange(&rule->is_over, 1))
        note("met\n");
    for (int waited = 0; !atomic_load(&rule->is_over); waited++) {
        wait_milliseconds(1);
        if (waited == 30000 && !atomic_exchange(&rule->is_over, 1))
            note("alone\n");
    }
    atomic_fetch_sub(&rule->company, 1);
}

static int is_written(long fd) {
    long flags = faults_call(SYS_fcntl, fd, F_GETFL, 0, 0, 0);
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

/* The length of half of a write; 0 of one that has no half. */
static long half(long number, const long *given) {
    return (number == SYS_writev ? (long)((struct iovec *)given[1])->iov_len : given[2]) / 2;
}

static int is_silent(const char *how) {
    return strcmp(how, "flip") == 0 || strcmp(how, "torn") == 0 || strcmp(how, "cut") == 0;
}

/* Damages what a write has written. */
static void damage(long number, const long *given, long written, const char *how) {
    long end = number == SYS_pwrite64 ? given[3] + written : faults_call(SYS_lseek, given[0], 0, SEEK_CUR, 0, 0);
    long half_of_it = written / 2;
    if (strcmp(how, "flip") == 0) {
        long back = written < 12 ? written : 12;
        char byte = ((const char *)given[1])[written - back] ^ 1;
        faults_call(SYS_pwrite64, given[0], (long)&byte, 1, end - back, 0);
    } else if (strcmp(how, "torn") == 0) {
        static const char zeros[4096];
        for (long at = end - half_of_it; at < end; at += sizeof zeros) {
            long length = end - at < (long)sizeof zeros ? end - at : (long)sizeof zeros;
            faults_call(SYS_pwrite64, given[0], (long)zeros, length, at, 0);
        }
    } else {
        faults_call(SYS_ftruncate, given[0], end - half_of_it, 0, 0, 0);
    }
}

static struct rule *rule_about(long number, const long *given, const char *name, const char *path) {
    for (struct rule *rule = rules; rule < rules + rule_count; rule++) {
        if (!has_name(rule->calls, name) || fnmatch(rule->pattern, path, 0) != 0)
            continue;
        if (strcmp(rule->how, "short") == 0 && (strcmp(name, "write") != 0 || half(number, given) == 0))
            continue;
        if (is_silent(rule->how) && (strcmp(name, "write") != 0 || number == SYS_writev || given[2] == 0))
            continue;
        int matched = atomic_fetch_add(&rule->matched, 1) + 1;
        if (matched == rule->first || (rule->is_lasting && matched > rule->first))
            return rule;
    }
    return NULL;
}

static long make(long number, const long *given) {
    long result = faults_call(number, given[0], given[1], given[2], given[3], given[4]);
    if (number == SYS_close && result == -EBADF)
        abort();
    return result;
}

static long shortened(long number, const long *given) {
    if (number != SYS_writev)
        return faults_call(number, given[0], given[1], half(number, given), given[3], 0);
    return faults_call(SYS_write, given[0], (long)((struct iovec *)given[1])->iov_base, half(number, given), 0, 0);
}

static long answer(long number, const long *given) {
    char path[PATH_MAX] = {0}, line[PATH_MAX + 64];
    const char *name = NULL;
    for (size_t i = 0; i < COUNT; i++)
        if (CALLS[i].number == number) {
            name = CALLS[i].name;
            path_of(CALLS[i].about, given, path);
        }
    size_t length = strlen(below);
    if (!length || strncmp(path, below, length) != 0 || (path[length] && path[length] != '/'))
        return make(number, given);
    if (strcmp(name, "open") == 0 && (given[number == SYS_openat ? 2 : 1] & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))))
        name = "create";
    if (strcmp(name, "close") == 0 && !is_written(given[0]))
        return make(number, given);
    struct rule *rule = rule_about(number, given, name, path);
    const char *how = rule ? rule->how : "";
    snprintf(line, sizeof line, "%s %s%s%s\n", name, path, rule ? " " : "", how);
    note(line);
    if (strcmp(how, "short") == 0)
        return shortened(number, given);
    if (is_silent(how)) {
        long written = make(number, given);
        if (written > 0)
            damage(number, given, written, how);
        return written;
    }
    if (strcmp(how, "slow") == 0)
        wait_milliseconds(rule->number);
    if (strcmp(how, "meet") == 0)
        meet(rule);
    int is_lost = strcmp(how, "lost") == 0, is_before = strcmp(how, "before") == 0;
    if (is_lost && faults_call(SYS_ftruncate, given[0], 0, 0, 0, 0) != 0)
        abort();
    long result = is_before && number != SYS_close ? 0 : make(number, given);
    if (!is_lost && !is_before && strcmp(how, "after") != 0)
        return result;
    /* Who is told of an error knows of no descriptor. */
    if (result > 0 && (strcmp(name, "open") == 0 || strcmp(name, "create") == 0))
        faults_call(SYS_close, result, 0, 0, 0, 0);
    return result < 0 ? result : -rule->number;
}

static void handle(int sign, siginfo_t *info, void *context) {
    ucontext_t *interrupted = context;
    const long given[] = ARGUMENTS(interrupted);
    int kept = errno;
    (void)sign;
    RESULT(interrupted) = answer(info->si_syscall, given);
    errno = kept;
}

/* A thread that blocks the signal, as allocators have some, would end the process at its next call. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    sigset_t rest;
    if (set && how != SIG_UNBLOCK) {
        rest = *set;
        sigdelset(&rest, SIGSYS);
        set = &rest;
    }
    return (int)-faults_call(SYS_rt_sigprocmask, how, (long)set, (long)old, _NSIG / 8, 0);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    int error = pthread_sigmask(how, set, old);
    errno = error ? error : errno;
    return error ? -1 : 0;
}

static void install(void) {
    struct sock_filter filter[COUNT + 8];
    size_t size = 0;
    uintptr_t passed = (uintptr_t)faults_called;
    const unsigned address = offsetof(struct seccomp_data, instruction_pointer);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, address);
    filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)passed, 0, 2);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, address + 4);
    filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(passed >> 32), COUNT + 1, 0);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT; i++)
        filter[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[i].number, COUNT - i, 0);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sock_fprog program = {size, filter};
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        perror("injection.c: no filter of calls");
        abort();
    }
}

/* Sets the rules, the log and the folder. No other thread may be about. */
void faults(const char *told, const char *log, const char *folder) {
    static int is_installed;
    char when[16];
    rule_count = 0;
    for (const char *line = told; *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : "") {
        struct rule *rule = &rules[rule_count];
        memset(rule, 0, sizeof *rule);
        if (rule_count == MOST_RULES || sscanf(line, "%127s %4095s %15s %7s %d", rule->calls, rule->pattern, when,
                                               rule->how, &rule->number) != 5) {
            fprintf(stderr, "injection.c: no rule: %s\n", line);
            abort();
        }
        rule->first = atoi(when);
        rule->is_lasting = strchr(when, '+') != NULL;
        rule_count++;
    }
    snprintf(log_path, sizeof log_path, "%s", log);
    snprintf(below, sizeof below, "%s", folder);
    if (!is_installed++)
        install();
}

__attribute__((constructor)) static void begin(void) {
    if (getenv("FAULTS"))
        faults(getenv("FAULTS"), getenv("FAULTS_LOG"), getenv("FAULTS_BELOW"));
}
