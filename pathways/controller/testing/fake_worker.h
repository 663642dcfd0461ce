// FakeWorker: a worker that keeps shards in host memory, for tests of the controller. It speaks the worker protocol over any
// transport, and keeps the protocol's promises. Commands take effect in order. A command that waits for data does not delay
// others. A failed command poisons its results.
//
// Programs are toys: the bytes to compile are a serialized v1.Compiled, which is returned as the answer. Its name selects the
// computation:
//   - "copy":   result i is argument i
//   - "add":    result 0 is argument 0 + argument 1 (f32)
//   - "fail":   every run fails with RESOURCE_EXHAUSTED "toy failure"
//   - "refuse": compilation fails with INVALID_ARGUMENT "toy refusal"
// A Python function (session/host_function.h) has such bytes as its text. What it makes of strings is the text "strings of shard S".
// A toy with newer_than_runtime is refused for that reason, unless the worker reads_newer.
//
// There are no files: a load makes arrays whose bytes are all 7.
//
// Direct transfers between fake workers go through a Hub that the test shares between them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/controller/testing/fake_dataflow.h"
#include "pathways/net/resumable/resumable_link.h"
#include "pathways/net/transport.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class FakeWorker : private net::Connection::Handler {
 public:
  struct Options {
    std::string name;
    std::string island;
    int devices = 4;
    std::string platform = "cpu";
    std::string stablehlo_version = "1.13.0";
    int protocol_version = 1;
    std::string process_address = {};  // empty: no programs over several hosts
    std::string token = {};
    std::string kind = "fake";    // of the devices
    std::string public_key = {};       // to be certified
    std::string next_public_key = {};  // that it makes when it is asked for one
    std::optional<::pathways::v1::Former> former = {};  // the worker has outlived a controller
    uint64_t epoch = 0;                                 // of that controller
    uint64_t last_launch = 0;
  };
  struct Hub {
    std::map<uint64_t, absl::StatusOr<std::string>> transfers;
    std::set<FakeWorker*> workers;
    uint64_t bytes = 0;
  };

  FakeWorker(Options options, Hub* hub);
  ~FakeWorker() override;

  void Join(net::Transport* transport, const std::string& address);
  void Die();  // the connection closes
  // The connection is lost with what is under way, and another one is made, if Welcome had a key.
  void Break();
  void ComeBack(net::Transport* transport, const std::string& address);
  // Sends a frame of the worker's stream; those that begin a connection are beside it.
  void Send(const ::pathways::v1::FromWorker& message, std::vector<Bytes> payload = {}, net::Lane lane = net::Lane::kUrgent);

  // For tests to read.
  std::vector<::pathways::v1::Command> log;  // every command, in order; chunks without their bytes
  int frames = 0;
  uint64_t reports_seen = 0;
  std::map<uint64_t, ::pathways::v1::Settled> settled;  // the latest, by session
  bool closed = false;
  absl::Status close_reason;
  ::pathways::v1::Welcome welcome;
  int resumed = 0;
  std::string given_up;  // why
  uint64_t given_up_by = 0;  // the incarnation of the controller
  ::pathways::v1::Peers peers;
  ::pathways::v1::HostConfig config;
  int configured = 0;
  size_t num_shards() const { return shards_.size(); }
  bool Has(uint64_t array) const;
  size_t num_executables() const { return executables_.size(); }
  int Count(::pathways::v1::Command::KindCase kind) const;

  // For tests to set or call.
  bool silent = false;         // receives, and answers nothing
  bool deaf_dataflow = false;  // ignores dataflow frames only
  bool hold_done = false;      // holds completions until ReleaseDone
  bool hold_compiled = false;  // holds answers to Compile until ReleaseCompiled
  bool reads_newer = false;
  std::map<::pathways::v1::Command::KindCase, absl::Status> file_errors;  // the outcomes of commands about files; none: OK
  size_t chunk_bytes = 1 << 20;                                           // larger fetched data
  void ReleaseDone();
  void ReleaseCompiled();
  void FailLaunch(const ::pathways::v1::LaunchFailed& failed) { dataflow_->TellFailed(failed); }
  void CallHost(uint64_t call, uint64_t session, uint64_t callback, const std::string& operand);
  std::map<uint64_t, std::pair<::pathways::v1::HostReply, std::string>> host_replies;

 private:
  struct Shard {
    int dtype = 0;
    std::vector<int64_t> dims;
    std::optional<absl::StatusOr<std::string>> value;  // none: in flight
  };
  using Key = std::pair<uint64_t, int>;
  struct Transfer {
    std::string data;
    uint64_t received = 0;
    std::optional<absl::Status> failed;
  };

  void OnFrame(net::Frame frame) override;
  void OnClosed(const absl::Status& reason) override;
  // Handles a command of the link itself; returns false for others.
  bool HandleLink(const ::pathways::v1::Command& command);
  // Turns housekeeping orders into commands, logs them and carries them out.
  FakeDataflow::Told Told();
  void CleanUp(const ::pathways::v1::CleanUp& what);
  void Handle(const ::pathways::v1::Command& command, std::string payload);
  void Wait(const ::pathways::v1::Command& command);
  void RunReady();
  std::vector<Key> Inputs(const ::pathways::v1::Command& command) const;
  std::vector<Key> Outputs(const ::pathways::v1::Command& command) const;
  bool Ready(const ::pathways::v1::Command& command) const;
  void Run(const ::pathways::v1::Command& command);
  void RunPut(const ::pathways::v1::Put& put);
  void RunFetch(const ::pathways::v1::Fetch& fetch);
  void RunExecute(const ::pathways::v1::Execute& execute);
  void SendStrings(const ::pathways::v1::Execute& execute, const absl::Status& status);
  void RunMove(const ::pathways::v1::Move& move);
  void RunAlias(const ::pathways::v1::Alias& alias);
  // -- fake_worker_arrays.cc
  void RunBitcast(const ::pathways::v1::Bitcast& bitcast);
  void RunFiles(const ::pathways::v1::Command& command);
  void RunLoad(const ::pathways::v1::LoadTiles& load);
  void SendFetched(uint64_t fetch, const absl::StatusOr<std::string>& value);
  void Done(uint64_t op, const absl::Status& status, std::optional<double> microseconds = std::nullopt);
  absl::StatusOr<std::string> Read(const Key& key) const;
  void Poke();

  const Options options_;
  Hub* const hub_;
  void SendBeside(const ::pathways::v1::FromWorker& message);
  std::unique_ptr<net::ResumableLink> stream_;  // once welcomed
  std::unique_ptr<net::Connection> connection_;
  std::map<Key, Shard> shards_;
  std::map<uint64_t, uint64_t> owners_;  // array to session
  std::map<uint64_t, ::pathways::v1::Compiled> executables_;
  std::map<uint64_t, ::pathways::v1::Compiled> dropped_;
  std::map<uint64_t, std::pair<uint64_t, std::vector<int>>> executable_shards_;  // session, shards on this host
  std::map<uint64_t, Transfer> incoming_;                                        // by transfer name
  std::deque<::pathways::v1::Command> waiting_;
  std::set<uint64_t> granted_;              // gangs
  std::unique_ptr<FakeDataflow> dataflow_;  // once welcomed
  ::pathways::v1::FromWorker held_done_;
  ::pathways::v1::FromWorker held_compiled_;
};

}  // namespace pw::controller
