// Wire: the connections between the processes of a computation.
//
// Gloo does not suffice. A collective of N devices in P processes needs one message between two processes, not one for each pair
// of devices. A dead peer must fail the launches that need it at once, and nothing else. A running client must be able to reach
// devices that join later. Gloo (Debian's is from 2022) has one context for each device rank, fixed when it is made, and cannot
// be interrupted.
//
// A process listens on an abstract Unix socket, and on TCP if it has a name by which other machines reach it. Connections over TCP are encrypted
// (connection.h). It publishes its address through the host's key-value callbacks. The address contains a secret, and a random number unique to the
// process, so a restarted process is a different one. Each process opens one connection to every process that it sends to, on first use. One thread reads
// all connections; each sender writes on its own thread. Messages that arrive before a Receive asks for them are kept.
//
// Invariants:
//   WI-1  messages with equal tags from one process arrive in the order sent
//   WI-2  Receive always ends: with the message, or with an error when its launch is aborted or the sender is lost. A process is
//         lost when a connection to or from it ends, or when the host reports it; it stays lost
//   WI-3  the reader never waits for another thread, so writing ends as long as the other process lives
//   WI-4  when no descriptor is free, incoming connections wait; they are tried again ten times a second
//   WI-5  a connection that has not shown the secret costs some KiB and changes nothing. At most kMostStrangers wait at a time: one more
//         drops the oldest, and none waits longer than twice kGreetingTime
//   WI-6  a connection cannot pass for a process that is connected already
// Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "plugins/pjrt_cpu/net/connection.h"

namespace pw::pjrt_cpu {

// A process's address. As text: UID SECRET UNIX-NAME HOST PORT ISLAND, separated by blanks, "-" for a missing field. UID differs
// after a restart.
struct ProcessAddress {
  uint64_t uid = 0;
  Key secret{};  // proves that the connecting process got the address from the host
  std::string unix_name;
  std::string host;
  int port = 0;
  std::string island;

  std::string ToString() const;
  static absl::StatusOr<ProcessAddress> Parse(absl::string_view text);
};

// Identifies a message by its launch, its group of devices, its collective and the step in the collective.
struct MessageTag {
  int64_t run = 0;
  uint64_t group = 0;
  int64_t op = 0;
  int64_t step = 0;
  friend bool operator==(const MessageTag& a, const MessageTag& b) {
    return a.run == b.run && a.group == b.group && a.op == b.op && a.step == b.step;
  }
  template <typename H>
  friend H AbslHashValue(H h, const MessageTag& t) {
    return H::combine(std::move(h), t.run, t.group, t.op, t.step);
  }
};

// Bytes sent with each message besides its contents; traffic() does not count them.
inline constexpr size_t kHeaderBytes = 48;
inline constexpr size_t kMostStrangers = 256;
inline constexpr std::chrono::milliseconds kGreetingTime{5000};

struct Message {
  std::unique_ptr<char[]> bytes;
  size_t size = 0;
};

class Wire {
 public:
  // `reachable_as`: this machine's name for other machines; empty: only processes of this machine can connect. `greeting`: WI-5.
  static absl::StatusOr<std::shared_ptr<Wire>> Open(const std::string& reachable_as, const std::string& island,
                                                    std::chrono::milliseconds greeting = kGreetingTime);
  ~Wire();
  Wire(const Wire&) = delete;

  const ProcessAddress& self() const;

  // Connects to a process if not connected. Blocks until the connection is established or fails.
  absl::Status Connect(const ProcessAddress& to);
  absl::Status Send(uint64_t to, const MessageTag& tag, absl::Span<const absl::string_view> parts);
  absl::StatusOr<Message> Receive(uint64_t from, const MessageTag& tag);

  // Marks a launch as aborted: Receive calls for its messages fail, now and later, here and in all processes that this one sends to.
  void Abort(int64_t run, const absl::Status& why);
  // Returns the error with which the launch was aborted, or OK. `on_abort` is called for every aborted launch, on any thread.
  absl::Status Aborted(int64_t run) const;
  void SetOnAbort(std::function<void(int64_t run, const absl::Status&)> on_abort);
  // Sets the name that errors give to a process; default: its uid.
  void Name(uint64_t uid, std::string name);
  // Records the host's report that the process is gone.
  void Lose(uint64_t uid, const std::string& why);
  // Returns the error because of which no messages will come from the process, or OK.
  absl::Status Lost(uint64_t uid) const;

  // Messages and bytes sent so far, in all, and to processes of other islands.
  struct Traffic {
    int64_t messages = 0;
    int64_t bytes = 0;
    int64_t messages_between_islands = 0;
    int64_t bytes_between_islands = 0;
  };
  Traffic traffic() const;

 private:
  struct State;
  explicit Wire(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;
};

}  // namespace pw::pjrt_cpu
