// WorldLink: this host's place in the world of its island (world.proto), and its connection to the world's key-value store. It exists
// before the host has devices, as the device runtime asks the store while it starts, and as long as the runtime lives.
//
//   connecting ──► joining ──WorldFormed──► formed ──► broken ──► connecting ──► returning ──WorldFormed──► formed
//                     └─ refused: Form returns the reason       └─ WorldOver: the world is over, and the process must start anew
//
// A broken connection is made again, until the controller says that the world is over. Requests that were not answered are sent again.
//
// Invariants:
//   WL-1  every request ends: with the controller's answer, at its own time limit while there is no connection, or by Stop
//   WL-2  the texts of errors name this host, its island and the key
//   WL-3  no frame of more than kMostFrameBytes is read or sent
// The methods of KeyValues, Form and Stop may be called from any thread but those of the executor. All else happens on a strand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/future.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/device/world.h"
#include "pathways/net/transport.h"
#include "pathways/v1/world.pb.h"

namespace pw::worker {

struct WorldOptions {
  std::string controller;  // address
  std::string token;       // as in LinkOptions
  std::string host_name;
  std::string island;
  int hosts = 1;                      // of the island
  bool exit_with_controller = false;  // Form returns an error if the controller is lost
};

class WorldLink final : public device::KeyValues, public std::enable_shared_from_this<WorldLink> {
 public:
  static constexpr size_t kMostFrameBytes = 16 << 20;
  static constexpr absl::Duration kRequestTime = absl::Seconds(60);  // for the answer to a request that does not wait for a key
  static constexpr absl::Duration kAnswerTime =
      absl::Seconds(10);  // for an answer, after the time that the request waits for a key

  struct Environment {
    Executor* executor;  // used by nothing that a device runtime could block
    Clock* clock;
    Timers* timers;
    net::Transport* transport;
  };
  // Called at most once, on the strand.
  using Over = std::function<void(const std::string& why)>;

  // The members of `environment` outlive the link and all of its tasks.
  static std::shared_ptr<WorldLink> Create(const Environment& environment, WorldOptions options, Over over);

  // Blocks until all hosts of the island have come. Called once.
  absl::StatusOr<device::World> Form();
  // Ends all waits with CANCELLED, and the connection.
  void Stop(const std::string& reason);

  absl::Status Put(absl::string_view key, absl::string_view value) override;
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override;
  absl::StatusOr<std::string> TryGet(absl::string_view key) override;

 private:
  class Handler;
  struct Request {
    ::pathways::v1::FromRuntime message;
    std::optional<absl::Time> deadline;  // of a Get that waits
    Promise<std::string> answer;
  };

  WorldLink(const Environment& environment, WorldOptions options, Over over);
  // Runs `task` on the strand while this lives.
  template <class F>
  void Post(F task);
  template <class F>
  void After(absl::Duration delay, F task);

  absl::StatusOr<std::string> Ask(::pathways::v1::FromRuntime message, absl::string_view key, std::optional<absl::Duration> wait);
  void Begin(Request request, absl::Duration limit);
  void SendRequest(uint64_t number, Request& request);

  void Connect();
  void Connected(absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  void OnMessage(uint64_t connection, const ::pathways::v1::ToRuntime& message, const Bytes& payload);
  void OnShutdown(uint64_t connection, const std::string& reason);
  void OnFormed(const ::pathways::v1::WorldFormed& formed);
  void OnAnswer(const ::pathways::v1::ValueAnswer& answer, const Bytes& value);
  void OnLost(uint64_t connection, const absl::Status& reason);
  // Gives the connection up after too long a silence.
  void Watch(uint64_t connection);
  void Reconnect();
  // Ends all waits with this error; nothing is sent any more.
  void End(const absl::Status& why);
  std::string Who() const;

  const Environment environment_;
  const WorldOptions options_;
  const Over over_;
  const std::string run_;  // of JoinWorld
  Strand strand_;
  std::optional<device::World> world_;  // once it has formed; without the store
  std::optional<Promise<device::World>> forming_;
  absl::Status ended_;
  uint64_t generation_ = 0;  // identifies the current connection
  std::unique_ptr<Handler> handler_;
  std::unique_ptr<net::Connection> connection_;  // null: none
  bool joined_ = false;                          // WorldFormed has come on it
  absl::Duration silence_limit_;
  bool complained_ = false;  // that the controller cannot be reached
  uint64_t next_request_ = 1;
  std::map<uint64_t, Request> requests_;  // that were not answered
};

}  // namespace pw::worker
