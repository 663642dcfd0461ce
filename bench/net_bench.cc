// Compares the transport with bare sockets, in the same run, over TCP, TCP with TLS, and Unix sockets on this machine.
//
// - round trip: 64 bytes there and back. "handlers": between two handlers, on the event loops' threads alone.
//   "strand": from a thread that waits, to a strand that answers, as between controller and workers.
// - frames/s: frames of 64 bytes, from one sending thread.
// - GB/s: payloads of 1 MiB. "urgent": the round trip of an urgent frame meanwhile.
//
// TLS has no bare socket of its own: TCP's is its floor. Each is measured in two modes: the sending thread writes small frames
// itself ("inline"), or the event loop writes all frames ("loop").
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "pathways/base/log.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/tls/certificates.h"

namespace {

using pw::net::Connection;
using pw::net::Frame;
using pw::net::Lane;

constexpr size_t kSmall = 64;
constexpr size_t kLarge = 1 << 20;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Times {
  double p50_us = 0, p99_us = 0;
};

Times Percentiles(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2] * 1e6, seconds[seconds.size() * 99 / 100] * 1e6};
}

class Handler : public Connection::Handler {
 public:
  std::function<void(Frame)> on_frame = [](Frame) {};
  std::counting_semaphore<> writable{0};

  void OnFrame(Frame frame) override { on_frame(std::move(frame)); }
  void OnClosed(const absl::Status&) override {}
  void OnBulkWritable() override { writable.release(); }
};

// Pair: one connection between two transports, which represent two processes.
class Pair {
 public:
  Pair(const std::string& address, bool inline_sends, std::shared_ptr<pw::net::Tls> tls)
      : server_transport_({.inline_sends = inline_sends, .tls = tls}),
        client_transport_({.inline_sends = inline_sends, .tls = tls}) {
    std::binary_semaphore ready{0}, accepted{0};
    auto listener = server_transport_.Listen(address, [&](std::unique_ptr<Connection> c) {
      server = std::move(c);
      accepted.release();
    });
    PW_CHECK(listener.ok());
    client_transport_.Connect((*listener)->address(), absl::Seconds(10), [&](auto c) {
      PW_CHECK(c.ok());
      client = *std::move(c);
      ready.release();
    });
    ready.acquire();
    accepted.acquire();
  }
  void Start() {
    client->Start(&at_client);
    server->Start(&at_server);
  }

  Handler at_client, at_server;

 private:
  pw::net::AsioTransport server_transport_, client_transport_;

 public:
  std::unique_ptr<Connection> client, server;
};

Times HandlerRoundTrip(Pair& pair, int count) {
  std::vector<double> times;
  std::binary_semaphore done{0};
  double start = 0;
  pair.at_server.on_frame = [&](Frame frame) { pair.server->Send(std::move(frame.header)); };
  pair.at_client.on_frame = [&](Frame frame) {
    const double now = Seconds();
    times.push_back(now - start);
    if (times.size() == static_cast<size_t>(count)) {
      done.release();
      return;
    }
    start = Seconds();
    pair.client->Send(std::move(frame.header));
  };
  pair.Start();
  start = Seconds();
  pair.client->Send(std::string(kSmall, 'x'));
  done.acquire();
  return Percentiles(std::move(times));
}

Times StrandRoundTrip(Pair& pair, int count) {
  pw::ThreadPool pool("strand", 1);
  pw::Strand strand(&pool);
  std::binary_semaphore answered{0};
  pair.at_server.on_frame = [&](Frame frame) {
    strand.Post([&, header = std::move(frame.header)]() mutable { pair.server->Send(std::move(header)); });
  };
  pair.at_client.on_frame = [&](Frame) { answered.release(); };
  pair.Start();
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const double start = Seconds();
    pair.client->Send(std::string(kSmall, 'x'));
    answered.acquire();
    times.push_back(Seconds() - start);
  }
  return Percentiles(std::move(times));
}

// Sends `count` frames with `payload` on the bulk lane, and waits whenever the lane is full. Returns the seconds until the last
// arrived.
double Stream(
    Pair& pair, int count, const pw::Bytes& payload, size_t header, std::atomic<bool>* finished = nullptr,
    const std::function<void()>& meanwhile = [] {}) {
  std::binary_semaphore done{0};
  int arrived = 0;
  pair.at_server.on_frame = [&](Frame frame) {
    if (frame.header.empty()) {
      pair.server->Send("");  // answers the urgent frame
    } else if (++arrived == count) {
      if (finished != nullptr) *finished = true;
      done.release();
    }
  };
  pair.Start();
  const double start = Seconds();
  std::thread producer([&] {
    for (int i = 0; i < count; ++i) {
      while (!pair.client->CanSendBulk()) pair.at_client.writable.acquire();
      pair.client->Send(std::string(header, 'x'), payload.empty() ? std::vector<pw::Bytes>{} : std::vector{payload}, Lane::kBulk);
    }
  });
  meanwhile();
  done.acquire();
  const double seconds = Seconds() - start;
  producer.join();
  return seconds;
}

struct Figures {
  Times handler, strand, urgent_meanwhile;
  double frames_per_s = 0, gb_per_s = 0;
};

// Returns the better of two measurements: other load can only make one slower.
Times Better(const Times& a, const Times& b) { return b.p50_us == 0 || (a.p50_us != 0 && a.p50_us < b.p50_us) ? a : b; }
Figures Better(const Figures& a, const Figures& b) {
  return {Better(a.handler, b.handler), Better(a.strand, b.strand), Better(a.urgent_meanwhile, b.urgent_meanwhile),
          std::max(a.frames_per_s, b.frames_per_s), std::max(a.gb_per_s, b.gb_per_s)};
}

Times UrgentMeanwhile(Pair& pair, int mib, const pw::Bytes& large) {
  std::binary_semaphore answered{0};
  pair.at_client.on_frame = [&](Frame) { answered.release(); };
  std::vector<double> times;
  std::atomic<bool> finished = false;
  Stream(pair, mib, large, kSmall, &finished, [&] {
    do {
      const double start = Seconds();
      pair.client->Send("");
      answered.acquire();
      times.push_back(Seconds() - start);
    } while (!finished);
  });
  return Percentiles(std::move(times));
}

struct Work {
  int round_trips = 20'000, frames = 1'000'000, mib = 2048;
};

Figures Measure(const std::string& address, bool inline_sends, const Work& work, const std::shared_ptr<pw::net::Tls>& tls) {
  const pw::Bytes large = pw::Bytes::Copy(std::string(kLarge, 'x'));
  auto with_pair = [&](auto measure) {
    Pair pair(address, inline_sends, tls);
    return measure(pair);
  };
  Figures figures;
  figures.handler = with_pair([&](Pair& pair) { return HandlerRoundTrip(pair, work.round_trips); });
  figures.strand = with_pair([&](Pair& pair) { return StrandRoundTrip(pair, work.round_trips); });
  figures.frames_per_s = work.frames / with_pair([&](Pair& pair) { return Stream(pair, work.frames, {}, kSmall); });
  figures.gb_per_s =
      work.mib * double{kLarge} / 1e9 / with_pair([&](Pair& pair) { return Stream(pair, work.mib, large, kSmall); });
  figures.urgent_meanwhile = with_pair([&](Pair& pair) { return UrgentMeanwhile(pair, work.mib, large); });
  return figures;
}

// Both ends show a certificate, as workers do to each other.
std::shared_ptr<pw::net::Tls> MakeTls() {
  const absl::Time now = absl::Now();
  const pw::net::Authority authority = *pw::net::MakeAuthority("a benchmark", now);
  const std::string key = *pw::net::NewKey();
  std::shared_ptr<pw::net::Tls> tls = *pw::net::Tls::Create(*pw::net::AuthorityFingerprint(authority.certificate_pem));
  PW_CHECK(tls->Show(*pw::net::Certify(authority, *pw::net::PublicKeyOf(key), pw::net::Part::kWorker, "a benchmark", now,
                                       now + absl::Hours(1)),
                     key)
               .ok());
  return tls;
}

// ---- the floor: blocking sockets, two threads, nothing else ----

std::pair<pw::net::Fd, pw::net::Fd> BareSockets(bool tcp) {
  int fds[2];
  if (!tcp) {
    PW_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    return {pw::net::Fd(fds[0]), pw::net::Fd(fds[1])};
  }
  auto listener = pw::net::ListenSocket(*pw::net::ParseAddress("127.0.0.1:0"));
  const pw::net::SocketAddress where = pw::net::LocalAddress(listener->get());
  fds[0] = ::socket(AF_INET, SOCK_STREAM, 0);
  PW_CHECK(::connect(fds[0], where.get(), where.size) == 0);
  fds[1] = ::accept(listener->get(), nullptr, nullptr);
  pw::net::ConfigureStream(fds[0]);
  pw::net::ConfigureStream(fds[1]);
  return {pw::net::Fd(fds[0]), pw::net::Fd(fds[1])};
}

bool ReadAll(int fd, char* data, size_t size) {
  for (size_t at = 0; at < size;) {
    const ssize_t n = ::read(fd, data + at, size - at);
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

void WriteAll(int fd, const char* data, size_t size) {
  for (size_t at = 0; at < size;) {
    const ssize_t n = ::write(fd, data + at, size - at);
    PW_CHECK(n > 0);
    at += static_cast<size_t>(n);
  }
}

Figures MeasureFloor(bool tcp, const Work& work) {
  Figures figures;
  {
    auto [a, b] = BareSockets(tcp);
    std::thread echo([fd = b.get()] {
      char data[kSmall];
      while (ReadAll(fd, data, kSmall)) WriteAll(fd, data, kSmall);
    });
    std::vector<double> times;
    char data[kSmall] = {};
    for (int i = 0; i < work.round_trips; ++i) {
      const double start = Seconds();
      WriteAll(a.get(), data, kSmall);
      PW_CHECK(ReadAll(a.get(), data, kSmall));
      times.push_back(Seconds() - start);
    }
    a = pw::net::Fd();
    echo.join();
    figures.handler = figures.strand = Percentiles(std::move(times));
  }
  auto [a, b] = BareSockets(tcp);
  const double start = Seconds();
  std::thread sink([fd = b.get(), mib = work.mib] {
    std::vector<char> data(kLarge);
    for (int i = 0; i < mib; ++i) PW_CHECK(ReadAll(fd, data.data(), kLarge));
  });
  const std::vector<char> data(kLarge);
  for (int i = 0; i < work.mib; ++i) WriteAll(a.get(), data.data(), kLarge);
  sink.join();
  figures.gb_per_s = work.mib * double{kLarge} / 1e9 / (Seconds() - start);
  return figures;
}

void Print(const std::string& name, const Figures& f) {
  std::printf(
      "%-12s round trip: handlers %5.1f us (p99 %6.1f), strand %5.1f us (p99 %6.1f)   %8.0f frames/s   %.2f GB/s   urgent %5.0f "
      "us\n",
      name.c_str(), f.handler.p50_us, f.handler.p99_us, f.strand.p50_us, f.strand.p99_us, f.frames_per_s, f.gb_per_s,
      f.urgent_meanwhile.p50_us);
}

std::string Json(const std::string& name, const Figures& f) {
  return absl::StrFormat(
      R"("%s": {"handler_p50_us": %.2f, "handler_p99_us": %.2f, "strand_p50_us": %.2f, "strand_p99_us": %.2f, )"
      R"("frames_per_s": %.0f, "gb_per_s": %.3f, "urgent_under_load_p50_us": %.1f, "urgent_under_load_p99_us": %.1f})",
      name, f.handler.p50_us, f.handler.p99_us, f.strand.p50_us, f.strand.p99_us, f.frames_per_s, f.gb_per_s,
      f.urgent_meanwhile.p50_us, f.urgent_meanwhile.p99_us);
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  Work work;
  int repeats = 3;
  pw::Flags flags("net_bench", "What the transport costs, beside bare sockets in the same run.");
  flags.Add("json", &json, "PATH", "where to write the figures");
  flags.Add("round-trips", &work.round_trips, "N", "frames that are waited for");
  flags.Add("frames", &work.frames, "N", "small frames that are not");
  flags.Add("mib", &work.mib, "N", "payloads of 1 MiB");
  flags.Add("repeats", &repeats, "N", "how often to measure; the best of each figure counts");
  if (const auto code = flags.ParseMain(argc, argv)) return *code;

  // All modes take turns within a repeat, so that the machine's other load affects all of them.
  std::map<std::string, Figures> best;
  const std::shared_ptr<pw::net::Tls> tls = MakeTls();
  for (int i = 0; i < repeats; ++i) {
    for (const std::string kind : {"tcp", "tls", "unix"}) {
      const std::string address = kind == "unix" ? absl::StrCat("unix:@pw_net_bench_", ::getpid()) : "127.0.0.1:0";
      const auto measure = [&](const std::string& name, const Figures& figures) { best[name] = Better(best[name], figures); };
      if (kind != "tls") measure(kind + "_bare", MeasureFloor(kind == "tcp", work));
      for (const auto& [mode, inline_sends] : {std::pair("_inline", true), std::pair("_loop", false)})
        measure(kind + mode, Measure(address, inline_sends, work, kind == "tls" ? tls : nullptr));
    }
  }
  std::vector<std::string> parts;
  for (const auto& [name, figures] : best) {
    Print(name, figures);
    parts.push_back(Json(name, figures));
  }
  const std::string line = absl::StrCat("{\"bench\": \"net\", \"figures\": {", absl::StrJoin(parts, ", "), "}}");
  std::printf("%s\n", line.c_str());
  if (!json.empty()) std::ofstream(json) << line << "\n";
  return 0;
}
