/*
 * print_notify - stands in for a service manager: prints what a program tells it, one datagram a line.
 *
 *   print_notify SOCKET      until its input ends
 */
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc != 2 || strlen(argv[1]) >= sizeof address.sun_path)
        return 2;
    memcpy(address.sun_path, argv[1], strlen(argv[1]));
    int sock = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (sock < 0 || bind(sock, (const struct sockaddr *)&address, sizeof address) != 0) {
        perror("print_notify");
        return 1;
    }
    (void)puts("listening");
    (void)fflush(stdout);
    for (;;) {
        char text[512];
        struct pollfd waits[] = {{.fd = sock, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
        if (poll(waits, 2, -1) < 0 || (waits[0].revents == 0 && waits[1].revents != 0))
            break;
        ssize_t n = waits[0].revents != 0 ? recv(sock, text, sizeof text, 0) : 0;
        for (ssize_t i = 0; i < n; i++)
            text[i] = text[i] == '\n' ? ' ' : text[i];
        if (n > 0)
            (void)printf("%.*s\n", (int)n, text);
        (void)fflush(stdout);
    }
    (void)close(sock);
    (void)unlink(argv[1]);
    return 0;
}
