// The load of the proxy benchmark, cheap enough not to be what is measured: one thread, epoll, no allocation per event.
//
//   load upstream ADDRESS PORT                                the server behind every tunnel
//   load connect|deny|get PROXY TARGET CONCURRENCY COUNT      one exchange after the other on each of CONCURRENCY slots
//   load down|up|both PROXY TARGET TUNNELS BYTES              BYTES each way through each tunnel
//   load idle PROXY TARGET TUNNELS                            opens tunnels, says so, keeps them until its input ends
//
// PROXY is ADDRESS:PORT of a proxy, or "direct": then TARGET is connected to, and there is no CONNECT. TARGET is
// NAME=ADDRESS:PORT: the name is what the proxy is asked for. Answers are one line of JSON.
//
// In a tunnel the client speaks first: a TLS client hello for the name, and behind it a command of 16 bytes: a letter and a
// number of bytes. 'P': the server answers 64 bytes. 'D': it sends that many. 'U': it reads that many and answers one byte.
// 'B': both at once. 'H': it waits.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PONG 64
#define COMMAND 16
#define MAX_FDS 65536
#define CHUNK (256 * 1024)

static uint8_t chunk[CHUNK];
static uint8_t sink[CHUNK];
static uint8_t hello[512];
static size_t hello_len;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static struct sockaddr_in address_of(const char *text) {
  struct sockaddr_in a = {.sin_family = AF_INET};
  char host[64];
  const char *colon = strrchr(text, ':');
  if (colon == NULL || (size_t)(colon - text) >= sizeof host) die("an address");
  memcpy(host, text, colon - text);
  host[colon - text] = 0;
  if (inet_pton(AF_INET, host, &a.sin_addr) != 1) die(host);
  a.sin_port = htons(atoi(colon + 1));
  return a;
}

static int nonblocking(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return fd;
}

// A client hello of TLS 1.2 with nothing but what a server name needs.
static void make_hello(const char *name) {
  size_t n = strlen(name);
  uint8_t *p = hello;
  size_t ext = 4 + 2 + 3 + n;
  size_t body = 2 + 32 + 1 + 2 + 2 + 1 + 1 + 2 + ext;
  *p++ = 22, *p++ = 3, *p++ = 1;
  *p++ = (body + 4) >> 8, *p++ = body + 4;
  *p++ = 1, *p++ = 0, *p++ = body >> 8, *p++ = body;
  *p++ = 3, *p++ = 3;
  for (int i = 0; i < 32; i++) *p++ = i;
  *p++ = 0;
  *p++ = 0, *p++ = 2, *p++ = 0x13, *p++ = 1;
  *p++ = 1, *p++ = 0;
  *p++ = ext >> 8, *p++ = ext;
  *p++ = 0, *p++ = 0, *p++ = (n + 5) >> 8, *p++ = n + 5;
  *p++ = (n + 3) >> 8, *p++ = n + 3, *p++ = 0, *p++ = n >> 8, *p++ = n;
  memcpy(p, name, n);
  hello_len = p + n - hello;
}

static void put_command(uint8_t *at, char letter, uint64_t bytes) {
  memset(at, 0, COMMAND);
  at[0] = letter;
  memcpy(at + 8, &bytes, 8);
}

// ---------------------------------------------------------------- the server

struct served {
  uint8_t head[1024];
  uint32_t have;
  char letter;
  uint64_t to_send, to_read, answer;
  int ended;
};
static struct served *served;

static const char HTTP_ANSWER[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 64\r\n\r\n"
    "0123456789012345678901234567890123456789012345678901234567890123";

static void watch(int ep, int op, int fd, uint32_t events) {
  struct epoll_event e = {.events = events, .data.fd = fd};
  if (epoll_ctl(ep, op, fd, &e) < 0) die("epoll_ctl");
}

// True while the connection lives.
static int serve_write(int fd, struct served *s) {
  while (s->to_send > 0 || s->answer > 0) {
    uint64_t *left = s->to_send > 0 ? &s->to_send : &s->answer;
    size_t n = *left < CHUNK ? *left : CHUNK;
    ssize_t w = send(fd, chunk, n, MSG_NOSIGNAL);
    if (w < 0) return errno == EAGAIN;
    *left -= w;
  }
  return 1;
}

static int serve_read(int fd, struct served *s) {
  for (;;) {
    if (s->letter == 0) {
      ssize_t r = read(fd, s->head + s->have, sizeof s->head - s->have);
      if (r == 0) return 0;
      if (r < 0) return errno == EAGAIN;
      s->have += r;
      if (s->head[0] == 'G') {
        // Requests with bodies there are none: each ends with an empty line.
        uint8_t *end;
        while ((end = memmem(s->head, s->have, "\r\n\r\n", 4)) != NULL) {
          if (send(fd, HTTP_ANSWER, sizeof HTTP_ANSWER - 1, MSG_NOSIGNAL) < 0) return 0;
          size_t used = end + 4 - s->head;
          memmove(s->head, s->head + used, s->have - used);
          s->have -= used;
        }
        if (s->have == sizeof s->head) return 0;
        continue;
      }
      if (s->have < 5) continue;
      uint32_t record = 5 + (s->head[3] << 8 | s->head[4]);
      if (s->head[0] != 22 || record + COMMAND > sizeof s->head) return 0;
      if (s->have < record + COMMAND) continue;
      uint8_t *command = s->head + record;
      uint64_t bytes, extra = s->have - record - COMMAND;
      memcpy(&bytes, command + 8, 8);
      s->letter = command[0];
      s->have = 0;
      if (s->letter == 'P') s->answer = PONG;
      if (s->letter == 'D' || s->letter == 'B') s->to_send = bytes;
      if (s->letter == 'U' || s->letter == 'B') {
        s->to_read = bytes - extra;
        if (s->to_read == 0 && s->letter == 'U') s->answer = 1;
      }
      if (!serve_write(fd, s)) return 0;
      continue;
    }
    ssize_t r = read(fd, sink, CHUNK);
    if (r < 0) return errno == EAGAIN;
    if (r == 0) {
      s->ended = 1;
      return s->to_send > 0 || s->answer > 0;
    }
    if (s->to_read > 0) {
      s->to_read -= (uint64_t)r < s->to_read ? (uint64_t)r : s->to_read;
      if (s->to_read == 0 && s->letter == 'U') {
        s->answer = 1;
        if (!serve_write(fd, s)) return 0;
      }
    }
  }
}

static void upstream(const char *host, const char *port) {
  char text[96];
  snprintf(text, sizeof text, "%s:%s", host, port);
  struct sockaddr_in a = address_of(text);
  int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (void *)&a, sizeof a) < 0) die("bind");
  if (listen(listener, 4096) < 0) die("listen");
  nonblocking(listener);
  int ep = epoll_create1(0);
  watch(ep, EPOLL_CTL_ADD, listener, EPOLLIN);
  served = calloc(MAX_FDS, sizeof *served);
  puts("up");
  fflush(stdout);
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
          memset(&served[c], 0, sizeof served[c]);
          watch(ep, EPOLL_CTL_ADD, nonblocking(c), EPOLLIN | EPOLLOUT | EPOLLET);
        }
        continue;
      }
      struct served *s = &served[fd];
      int alive = 1;
      if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) alive = serve_read(fd, s);
      if (alive && (events[i].events & EPOLLOUT)) alive = serve_write(fd, s);
      if (!alive || (s->ended && s->to_send == 0 && s->answer == 0)) close(fd);
    }
  }
}

// ---------------------------------------------------------------- the clients

enum { CONNECTING, ASKED, OPEN };

struct slot {
  int fd, state;
  double began;
  uint32_t have;
  uint8_t head[1024];
  uint64_t to_send, to_read;
  size_t sent;
};

static int is_direct, concurrency;
static struct sockaddr_in proxy_address, target_address;
static char request[512], kind;
static size_t request_len;
static uint64_t bytes_each;
static long wanted, begun, done, failed;
static double *times;
static int ep;
static struct slot *slots;

static void begin(struct slot *s) {
  if (begun >= wanted) {
    s->fd = -1;
    return;
  }
  begun++;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) die("socket");
  nonblocking(fd);
  *s = (struct slot){.fd = fd, .state = CONNECTING, .began = now()};
  struct sockaddr_in *a = is_direct ? &target_address : &proxy_address;
  if (connect(fd, (void *)a, sizeof *a) < 0 && errno != EINPROGRESS) {
    failed++;
    close(fd);
    begin(s);
    return;
  }
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = s};
  if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) < 0) die("epoll_ctl");
}

static void finish(struct slot *s, int ok) {
  if (ok) times[done++] = now() - s->began;
  else failed++;
  close(s->fd);
  begin(s);
}

// The first words in a tunnel.
static int speak(struct slot *s) {
  uint8_t text[sizeof hello + COMMAND];
  char letter = kind == 'c' ? 'P' : kind == 'i' ? 'H' : kind == 'd' ? 'D' : kind == 'u' ? 'U' : 'B';
  memcpy(text, hello, hello_len);
  put_command(text + hello_len, letter, bytes_each);
  s->state = OPEN;
  s->to_read = kind == 'c' ? PONG : kind == 'd' || kind == 'b' ? bytes_each : kind == 'u' ? 1 : 0;
  s->to_send = kind == 'u' || kind == 'b' ? bytes_each : 0;
  return send(s->fd, text, hello_len + COMMAND, MSG_NOSIGNAL) == (ssize_t)(hello_len + COMMAND);
}

static int push(struct slot *s) {
  while (s->to_send > 0) {
    size_t n = s->to_send < CHUNK ? s->to_send : CHUNK;
    ssize_t w = send(s->fd, chunk, n, MSG_NOSIGNAL);
    if (w < 0) return errno == EAGAIN;
    s->to_send -= w;
  }
  return 1;
}

// 0: goes on; 1: done; -1: failed.
static int pull(struct slot *s) {
  for (;;) {
    if (s->state != OPEN) {
      ssize_t r = read(s->fd, s->head + s->have, sizeof s->head - 1 - s->have);
      if (r == 0) return -1;
      if (r < 0) return errno == EAGAIN ? 0 : -1;
      s->have += r;
      s->head[s->have] = 0;
      uint8_t *end = memmem(s->head, s->have, "\r\n\r\n", 4);
      if (end == NULL) {
        if (s->have == sizeof s->head - 1) return -1;
        continue;
      }
      int code = atoi((char *)s->head + 9);
      if (kind == 'n') return code == 403 ? 1 : -1;
      if (kind == 'g') {
        char *length = strcasestr((char *)s->head, "\r\ncontent-length:");
        if (code != 200 || length == NULL) return -1;
        size_t whole = end + 4 - s->head + atoi(length + 17);
        if (s->have < whole) continue;
        if (s->have > whole) return -1;
        s->have = 0;
        return 1;
      }
      // A server that speaks after us alone: nothing is behind the head.
      if (code != 200 || end + 4 != s->head + s->have) return -1;
      s->have = 0;
      if (!speak(s) || !push(s)) return -1;
      continue;
    }
    ssize_t r = read(s->fd, sink, CHUNK);
    if (r < 0) return errno == EAGAIN ? 0 : -1;
    if (r == 0) return -1;
    if ((uint64_t)r > s->to_read) return -1;
    s->to_read -= r;
    if (s->to_read == 0 && s->to_send == 0) return 1;
  }
}

static void on_event(struct slot *s, uint32_t events) {
  if (s->fd < 0) return;
  if (s->state == CONNECTING && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
    int error = 0;
    socklen_t n = sizeof error;
    getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &n);
    if (error) return finish(s, 0);
    s->state = ASKED;
    if (is_direct && kind != 'g') {
      if (!speak(s) || !push(s)) return finish(s, 0);
    } else if (send(s->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len)
      return finish(s, 0);
  }
  if (s->state == OPEN && (events & EPOLLOUT)) {
    if (!push(s)) return finish(s, 0);
    if (kind == 'b' && s->to_send == 0 && s->to_read == 0) return finish(s, 1);
  }
  if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  for (;;) {
    int result = pull(s);
    if (result == 0) return;
    // Requests of a connection that stays.
    if (kind == 'g' && result == 1 && begun < wanted) {
      times[done++] = now() - s->began;
      begun++;
      s->began = now();
      if (send(s->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len) return finish(s, 0);
      continue;
    }
    return finish(s, result == 1);
  }
}

static int by_size(const void *a, const void *b) {
  double x = *(double *)a, y = *(double *)b;
  return x < y ? -1 : x > y;
}

static int clients(char **argv) {
  char name[256], *equals = strchr(argv[2], '=');
  kind = argv[0][0] == 'd' && argv[0][1] == 'e' ? 'n' : argv[0][0];
  is_direct = strcmp(argv[1], "direct") == 0;
  if (!is_direct) proxy_address = address_of(argv[1]);
  if (equals == NULL || (size_t)(equals - argv[2]) >= sizeof name) die("a target");
  memcpy(name, argv[2], equals - argv[2]);
  name[equals - argv[2]] = 0;
  target_address = address_of(equals + 1);
  int port = ntohs(target_address.sin_port);
  make_hello(name);
  request_len = snprintf(request, sizeof request,
                         kind != 'g' ? "CONNECT %1$s:%2$d HTTP/1.1\r\nHost: %1$s:%2$d\r\n\r\n"
                         : is_direct ? "GET / HTTP/1.1\r\nHost: %1$s:%2$d\r\n\r\n"
                                     : "GET http://%1$s:%2$d/ HTTP/1.1\r\nHost: %1$s:%2$d\r\n\r\n",
                         name, port);
  concurrency = atoi(argv[3]);
  int is_stream = kind == 'd' || kind == 'u' || kind == 'b', is_idle = kind == 'i';
  wanted = is_stream || is_idle ? concurrency : atol(argv[4]);
  bytes_each = is_stream ? strtoull(argv[4], NULL, 10) : 0;
  times = calloc(wanted + 1, sizeof *times);
  slots = calloc(concurrency, sizeof *slots);
  ep = epoll_create1(0);
  double start = now(), give_up = start + 120;
  // Tunnels that stay are opened a few at a time, as people come.
  int opened = is_idle ? 0 : concurrency;
  for (int i = 0; i < opened; i++) begin(&slots[i]);
  struct epoll_event events[256];
  while (done + failed < wanted && now() < give_up) {
    if (is_idle) {
      int ready = 0;
      for (int i = 0; i < opened; i++) ready += slots[i].state == OPEN;
      if (ready + failed == wanted) break;
      for (int i = 0; i < 64 && opened < concurrency && opened - ready - failed < 256; i++) begin(&slots[opened++]);
    }
    int n = epoll_wait(ep, events, 256, 100);
    for (int i = 0; i < n; i++) on_event(events[i].data.ptr, events[i].events);
  }
  double seconds = now() - start;
  if (is_idle) {
    int ready = 0;
    for (int i = 0; i < opened; i++) ready += slots[i].fd >= 0 && slots[i].state == OPEN;
    printf("{\"open\":%d,\"failed\":%ld}\n", ready, wanted - ready);
    fflush(stdout);
    while (read(0, sink, sizeof sink) > 0) continue;
    return 0;
  }
  qsort(times, done, sizeof *times, by_size);
  double p50 = done ? times[done / 2] : 0, p99 = done ? times[done * 99 / 100] : 0;
  printf("{\"done\":%ld,\"failed\":%ld,\"seconds\":%.6f,\"p50_ms\":%.4f,\"p99_ms\":%.4f}\n", done, wanted - done,
         seconds, p50 * 1e3, p99 * 1e3);
  return 0;
}

int main(int argc, char **argv) {
  struct rlimit all = {MAX_FDS, MAX_FDS};
  setrlimit(RLIMIT_NOFILE, &all);
  memset(chunk, 'x', sizeof chunk);
  if (argc == 4 && strcmp(argv[1], "upstream") == 0) upstream(argv[2], argv[3]);
  if (argc >= 5) return clients(argv + 1);
  fprintf(stderr, "usage: see the top of load.c\n");
  return 2;
}
