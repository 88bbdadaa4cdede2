/* Hook shim in C: forwards a CLI's hook call to the harness, and blocks on any error.
 *
 *     shim FOLDER AGENT EVENT DEADLINE_S
 *
 * shim_client.py is the same program in Python, with more documentation. Any call here may block: the
 * timer that is set first ends the process in any state. It uses the monotonic clock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    PAYLOAD_CAP = 16 * 1024 * 1024,
    REPLY_CAP = 32 * 1024 * 1024 + 1024,
    HEAD_ROOM = 512,
    PIECE = 256 * 1024,
    TOKEN = 64,
    NONCE = 32,
};

struct bytes {
    char *at;
    size_t size, room;
};

static volatile sig_atomic_t observing;

static int write_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t done = write(fd, data, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        data += done;
        size -= (size_t)done;
    }
    return 0;
}

/* Also called by the signal handler: only write and _exit are allowed. */
_Noreturn static void give_up(const char *reason) {
    if (observing)
        _exit(0);
    if (write_all(2, "tillerman: ", 11) == 0 && write_all(2, reason, strlen(reason)) == 0)
        (void)write_all(2, "\n", 1);
    _exit(2);
}

static void too_late(int signal_number) {
    (void)signal_number;
    give_up("no answer within the hook's time");
}

static void start_timer(const char *seconds) {
    char *end;
    double limit = strtod(seconds, &end);
    if (end == seconds || *end || !(limit > 0 && limit <= 86400))
        give_up("no deadline was given");
    struct itimerval timer = {.it_value = {(time_t)limit, 0}};
    timer.it_value.tv_usec = (suseconds_t)((limit - (double)timer.it_value.tv_sec) * 1e6);
    if (!timer.it_value.tv_sec && !timer.it_value.tv_usec)
        timer.it_value.tv_usec = 1;
    struct sigaction action = {.sa_handler = too_late};
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGALRM);
    signal(SIGPIPE, SIG_IGN);
    /* the parent process may have blocked or ignored it */
    if (sigaction(SIGALRM, &action, NULL) || sigprocmask(SIG_UNBLOCK, &ours, NULL) ||
        setitimer(ITIMER_REAL, &timer, NULL))
        give_up("no timer could be set");
}

static long milliseconds_left(void) {
    struct itimerval timer;
    getitimer(ITIMER_REAL, &timer);
    long left = (long)timer.it_value.tv_sec * 1000 + (long)timer.it_value.tv_usec / 1000;
    return left > 0 ? left : 1;
}

/* Reads until the end of the stream and appends to the buffer. */
static void read_all(int fd, struct bytes *into, size_t cap, const char *too_much) {
    for (;;) {
        if (into->size == into->room) {
            into->room = into->room ? into->room * 2 : PIECE;
            into->at = realloc(into->at, into->room);
            if (!into->at)
                give_up("out of memory");
        }
        ssize_t got = read(fd, into->at + into->size, into->room - into->size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            give_up(strerror(errno));
        if (got == 0)
            return;
        into->size += (size_t)got;
        if (into->size > cap)
            give_up(too_much);
    }
}

static int is_ours_alone(int fd, mode_t type) {
    struct stat found;
    return fstat(fd, &found) == 0 && (found.st_mode & S_IFMT) == type &&
           found.st_uid == geteuid() && !(found.st_mode & 077);
}

/* Enters the folder after checking that only the user has access, and reads its tokens. */
static void enter(const char *folder, char ask[TOKEN + 1], char answer[TOKEN + 1]) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        give_up("tillerman is not running: its folder cannot be opened");
    if (!is_ours_alone(fd, S_IFDIR))
        give_up("tillerman's folder is accessible to other users");
    if (fchdir(fd))
        give_up("tillerman's folder cannot be entered");
    int key = openat(fd, "key", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (key < 0)
        give_up("tillerman is not running: its key cannot be opened");
    if (!is_ours_alone(key, S_IFREG))
        give_up("tillerman's key is accessible to other users");
    char text[2 * TOKEN + 3];
    ssize_t size = read(key, text, sizeof text);
    if (size != 2 * TOKEN + 2 || text[TOKEN] != ' ' || text[2 * TOKEN + 1] != '\n')
        give_up("tillerman's key is damaged");
    memcpy(ask, text, TOKEN);
    memcpy(answer, text + TOKEN + 1, TOKEN);
    ask[TOKEN] = answer[TOKEN] = 0;
    close(key);
    close(fd);
}

static int is_us(int fd) {
#ifdef SO_PEERCRED
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
#else
    uid_t user;
    gid_t group;
    return getpeereid(fd, &user, &group) == 0 && user == geteuid();
#endif
}

static int meet(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        give_up("no socket can be created");
    struct sockaddr_un where = {.sun_family = AF_UNIX, .sun_path = "socket"};
    if (connect(fd, (struct sockaddr *)&where, sizeof where))
        give_up("tillerman is not running: its socket does not accept connections");
    if (!is_us(fd))
        give_up("another program listens in place of tillerman");
    return fd;
}

static void make_nonce(char nonce[NONCE + 1]) {
    unsigned char random[NONCE / 2];
    if (getentropy(random, sizeof random))
        give_up("no random numbers are available");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(nonce + 2 * i, 3, "%02x", random[i]);
}

/* Parses a number of one to nine digits and the character that must follow it. */
static size_t number(const char **at, const char *end, char follows) {
    size_t value = 0;
    const char *first = *at;
    while (*at < end && **at >= '0' && **at <= '9' && *at - first < 9)
        value = value * 10 + (size_t)(*(*at)++ - '0');
    if (*at == first || *at == end || *(*at)++ != follows)
        give_up("the answer is damaged");
    return value;
}

/* Checks that the answer is valid and complete, and prints it. */
_Noreturn static void obey(const struct bytes *heard, const char *token, const char *nonce) {
    char begins[16 + TOKEN + NONCE];
    size_t length = (size_t)snprintf(begins, sizeof begins, "tillerman1 %s %s ", token, nonce);
    if (!heard->size)
        give_up("tillerman gave no answer");
    if (heard->size < length || memcmp(heard->at, begins, length) != 0)
        give_up("the answer is not from tillerman");
    const char *at = heard->at + length, *end = heard->at + heard->size;
    size_t code = number(&at, end, ' '), out = number(&at, end, ' '), error = number(&at, end, '\n');
    if (code > 255 || (size_t)(end - at) != out + error)
        give_up("the answer is damaged");
    if (write_all(1, at, out) || write_all(2, at + out, error))
        give_up("the answer could not be passed on");
    _exit((int)code);
}

int main(int argc, char **argv) {
    if (argc != 5)
        give_up("usage: FOLDER AGENT EVENT DEADLINE_S");
    observing = argv[3][0] == '-';
    for (int fd = 0; fd <= 2; fd++) /* else the socket could get its number and output */
        if (fcntl(fd, F_GETFD) < 0)
            give_up("stdin, stdout and stderr must be open");
    start_timer(argv[4]);

    struct bytes question = {.size = HEAD_ROOM};
    question.at = malloc(question.room = PIECE);
    if (!question.at)
        give_up("out of memory");
    read_all(0, &question, HEAD_ROOM + PAYLOAD_CAP, "the hook's input is too long");

    char ask[TOKEN + 1], answer[TOKEN + 1], nonce[NONCE + 1], head[HEAD_ROOM];
    enter(argv[1], ask, answer);
    make_nonce(nonce);
    int fd = meet(); /* open until we exit: the server detects our exit by it */
    int length = snprintf(head, sizeof head, "tillerman1 %s %s %s %s %ld %zu\n", ask, nonce, argv[2],
                          argv[3], milliseconds_left(), question.size - HEAD_ROOM);
    if (length < 0 || length >= (int)sizeof head)
        give_up("the names of agent and event are too long");
    char *begin = question.at + HEAD_ROOM - length;
    memcpy(begin, head, (size_t)length);
    if (write_all(fd, begin, question.size - HEAD_ROOM + (size_t)length))
        give_up("tillerman did not accept the request");

    struct bytes heard = {0};
    read_all(fd, &heard, REPLY_CAP, "the answer is too long");
    obey(&heard, answer, nonce);
}
