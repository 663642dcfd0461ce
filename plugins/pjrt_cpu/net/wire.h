// The wire: how the processes of one computation speak to each other.
//
// Why not Gloo. A collective of N devices in P processes needs one message between two processes, not one for each pair of devices; a peer that
// dies must fail the launches that need it at once and nothing else; devices that come later must be reachable by a client that is
// already there. Gloo (Debian's is from 2022) has one context for each device rank, fixed when it is made, and cannot be interrupted.
//
// A process listens on an abstract Unix socket, and on TCP if it is told under which name others reach it. Its address, which
// it publishes through the host's key-value callbacks, holds a random number that no other process ever has: a process that is
// started again is another one. Each process opens a connection of its own to every process that it sends to, at the first use, and
// never two. One thread reads everything that arrives; whoever sends writes for itself. What arrives before anybody asks for it is kept.
//
// Invariants:
//   WI-1  messages with equal tags from one process arrive in the order sent
//   WI-2  Receive ends: with the message, or with an error when its launch is aborted or the sender is lost. A process is lost when a connection
//         to or from it ends, or when the host says so; it stays lost
//   WI-3  the reader never waits for anybody, so writing ends as long as the other process lives
//   WI-4  a connection for which there is no descriptor waits, and is looked at ten times a second
// Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pw::pjrt_cpu {

// Where a process listens, and which life of it. As text: UID SECRET UNIX-NAME HOST PORT ISLAND, separated by blanks, "-" for what is not there.
struct ProcessAddress {
  uint64_t uid = 0;
  uint64_t secret = 0;  // whoever knows it has the address from the host, and may connect
  std::string unix_name;
  std::string host;
  int port = 0;
  std::string island;

  std::string ToString() const;
  static absl::StatusOr<ProcessAddress> Parse(absl::string_view text);
};

// Which message: of which launch, among which devices, and which step of the collective.
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

// What travels with a message besides its bytes; traffic() leaves it out.
inline constexpr size_t kHeaderBytes = 48;

struct Message {
  std::unique_ptr<char[]> bytes;
  size_t size = 0;
};

class Wire {
 public:
  // `reachable_as`: the name of this machine for others; empty: only processes of this machine connect.
  static absl::StatusOr<std::shared_ptr<Wire>> Open(const std::string& reachable_as, const std::string& island);
  ~Wire();
  Wire(const Wire&) = delete;

  const ProcessAddress& self() const;

  // Opens the way to a process, if it is not open. Blocks for as long as connecting takes.
  absl::Status Connect(const ProcessAddress& to);
  absl::Status Send(uint64_t to, const MessageTag& tag, absl::Span<const absl::string_view> parts);
  absl::StatusOr<Message> Receive(uint64_t from, const MessageTag& tag);

  // Nobody will complete this launch: whoever waits for messages of it is told, here and in all processes that this one sends to, now and
  // later.
  void Abort(int64_t run, const absl::Status& why);
  // Why the launch was aborted, or OK. `on_abort` is told of every launch that is, on any thread.
  absl::Status Aborted(int64_t run) const;
  void SetOnAbort(std::function<void(int64_t run, const absl::Status&)> on_abort);
  // The host knows that the process is gone.
  void Lose(uint64_t uid, const std::string& why);
  // Why messages from it will not come, or OK.
  absl::Status Lost(uint64_t uid) const;

  // Bytes and messages sent so far, to processes of this island and of others.
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
