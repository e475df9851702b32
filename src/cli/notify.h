/*
 * notify - tells the service manager how the program is, as systemd's sd_notify(3) does.
 *
 * One datagram to the socket that NOTIFY_SOCKET names; without that variable nothing happens. The protocol is three
 * lines of text, so no library is needed for it.
 *
 * Thread   any; the environment must not change meanwhile
 */
#ifndef CAIRN_CLI_NOTIFY_H
#define CAIRN_CLI_NOTIFY_H

#include <stdbool.h>

/*
 * Send "READY=1", "STATUS=reading the model: 40 %" or several of these, separated by line ends.
 *
 * After    true: it was sent. false: there is no service manager, or it could not be reached: nobody needs to care
 */
bool cairn_notify(const char *state);

#endif
