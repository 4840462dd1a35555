// The floor: a CONNECT relay with no policy, no names and no records. One thread, epoll, bytes go by splice(2).
//
//   splice-relay PORT ADDRESS:PORT          every CONNECT leads to that address
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FDS 65536
#define PIPE_BYTES (256 * 1024)

struct side {
  int fd, other, pipe[2];
  size_t held;
  int is_client, is_up, ended, shut;
  uint32_t have;
  char head[1024];
};
static struct side *sides;
static int ep;
static const char OK[] = "HTTP/1.1 200 Connection Established\r\n\r\n";

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void watch(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};
  if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) < 0) die("epoll_ctl");
}

static void drop(int fd) {
  for (int i = 0; i < 2; i++) {
    struct side *s = &sides[fd];
    int other = s->other;
    if (s->fd != 0) {
      if (s->pipe[0] > 0) close(s->pipe[0]), close(s->pipe[1]);
      close(s->fd);
      memset(s, 0, sizeof *s);
    }
    fd = other;
    if (fd == 0) return;
  }
}

// Carries what `from` sends to the other side. 0: it is over.
static int carry(struct side *from) {
  struct side *to = &sides[from->other];
  if (from->pipe[0] == 0) {
    if (pipe2(from->pipe, O_NONBLOCK) < 0) return 0;
    fcntl(from->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
  }
  for (;;) {
    int moved = 0;
    if (!from->ended && from->held < PIPE_BYTES) {
      ssize_t r = splice(from->fd, NULL, from->pipe[1], NULL, PIPE_BYTES - from->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
      if (r == 0) from->ended = 1;
      else if (r > 0) from->held += r, moved = 1;
      else if (errno != EAGAIN) return 0;
    }
    if (from->held > 0) {
      ssize_t w = splice(from->pipe[0], NULL, to->fd, NULL, from->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
      if (w > 0) from->held -= w, moved = 1;
      else if (w < 0 && errno != EAGAIN) return 0;
    }
    if (from->ended && from->held == 0 && !from->shut) {
      shutdown(to->fd, SHUT_WR);
      from->shut = 1;
    }
    if (!moved) return !(from->shut && to->shut);
  }
}

static int read_head(struct side *s, struct sockaddr_in *target) {
  ssize_t r = read(s->fd, s->head + s->have, sizeof s->head - s->have);
  if (r <= 0) return r < 0 && errno == EAGAIN;
  s->have += r;
  if (memmem(s->head, s->have, "\r\n\r\n", 4) == NULL) return s->have < sizeof s->head;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0 || fd >= MAX_FDS) return 0;
  sides[fd] = (struct side){.fd = fd, .other = s->fd};
  s->other = fd;
  if (connect(fd, (void *)target, sizeof *target) < 0 && errno != EINPROGRESS) return 0;
  watch(fd);
  return 1;
}

int main(int argc, char **argv) {
  struct rlimit all = {MAX_FDS, MAX_FDS};
  setrlimit(RLIMIT_NOFILE, &all);
  if (argc != 3) return 2;
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))}, target = own;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  char *colon = strrchr(argv[2], ':');
  *colon = 0;
  inet_pton(AF_INET, argv[2], &target.sin_addr);
  target.sin_port = htons(atoi(colon + 1));
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (void *)&own, sizeof own) < 0 || listen(listener, 4096) < 0) die("listen");
  ep = epoll_create1(0);
  watch(listener);
  sides = calloc(MAX_FDS, sizeof *sides);
  struct epoll_event events[256];
  for (;;) {
    int n = epoll_wait(ep, events, 256, -1);
    for (int i = 0; i < n; i++) {
      int fd = events[i].data.fd;
      if (fd == listener) {
        int c;
        while ((c = accept(listener, NULL, NULL)) >= 0) {
          if (c >= MAX_FDS) {
            close(c);
            continue;
          }
          sides[c] = (struct side){.fd = c, .is_client = 1};
          watch(c);
        }
        continue;
      }
      struct side *s = &sides[fd];
      if (s->fd == 0) continue;
      int alive = 1;
      if (s->is_client && s->other == 0) alive = read_head(s, &target);
      else if (!s->is_client && !s->is_up) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (events[i].events & EPOLLOUT) {
          s->is_up = sides[s->other].is_up = 1;
          alive = error == 0 && send(s->other, OK, sizeof OK - 1, MSG_NOSIGNAL) == sizeof OK - 1;
        } else alive = error == 0;
      }
      if (alive && s->is_up) alive = carry(s) && carry(&sides[s->other]);
      if (!alive) drop(fd);
    }
  }
}
