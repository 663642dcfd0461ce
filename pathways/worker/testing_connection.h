// For tests of the worker: a connection that records the worker's messages.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/transport.h"
#include "pathways/v1/dataflow.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/outbox.h"

namespace pw::worker {

namespace v1 = pathways::v1;

// Returns the name of an op for tests: one with an odd number is that of a command on many hosts.
inline uint64_t NamedOp(uint64_t number) { return *RequestName{SessionId(1), number, number & 1, false}.Number(); }
inline uint64_t NumberOf(uint64_t op) { return RequestName::Read(op)->request; }

// Records the messages of a worker.
class RecordingConnection : public net::Connection {
 public:
  void Start(Handler*) override {}
  void Send(std::string header, std::vector<Bytes> payload, net::Lane lane) override {
    v1::FromWorker message;
    ASSERT_TRUE(message.ParseFromString(header));
    std::string bytes;
    for (const Bytes& piece : payload) bytes.append(piece.view());
    size_t offset = 0;
    auto take = [&](size_t n) {
      offset += n;
      return bytes.substr(offset - n, n);
    };
    ++frames;
    for (const v1::Event& event : message.events()) {
      if (event.has_done()) {
        if (on_done) on_done(event.done());
        for (uint64_t op : event.done().ok()) AddDone(op, absl::OkStatus());
        for (const auto& f : event.done().failed()) AddDone(f.op(), FromProto(f.status()));
        for (const auto& p : event.done().poisoned()) poisoned[p.op()] = FromProto(p.status());
      } else if (event.has_joined()) {
        joined.push_back(event.joined());
      } else if (event.has_fetched()) {
        const auto [first, is_new] = fetched.emplace(event.fetched().fetch(), event.fetched());
        const std::string piece = take(event.fetched().payload_bytes());
        if (!is_new) {
          EXPECT_TRUE(repeats && first->second.SerializeAsString() == event.fetched().SerializeAsString()) << "fetched twice";
          EXPECT_EQ(fetched_bytes[event.fetched().fetch()], piece);
          ++repeated;
          continue;
        }
        fetched_bytes[event.fetched().fetch()] += piece;
        if (!event.fetched().has_shared()) continue;
        absl::StatusOr<Bytes> shared = net::OpenShared(net::ReadName(event.fetched().shared()), false);
        ASSERT_TRUE(shared.ok()) << shared.status();
        fetched_bytes[event.fetched().fetch()] = std::string(shared->view());
      } else if (event.has_shared_taken()) {
        taken.insert(taken.end(), event.shared_taken().transfers().begin(), event.shared_taken().transfers().end());
      } else if (event.has_chunk()) {
        EXPECT_EQ(lane, net::Lane::kBulk);
        EXPECT_EQ(event.chunk().offset(), fetched_bytes[event.chunk().transfer()].size());
        fetched_bytes[event.chunk().transfer()] += take(event.chunk().payload_bytes());
        ++chunks;
      } else if (event.has_host_call()) {
        host_calls.push_back(event.host_call());
        host_call_bytes.push_back("");
        for (const auto& operand : event.host_call().operands()) host_call_bytes.back() += take(operand.bytes());
      } else if (event.has_compiled()) {
        EXPECT_TRUE(compiled.emplace(event.compiled().executable(), event.compiled()).second);
      } else if (event.has_described()) {
        described[event.described().query()] = event.described();
      } else if (event.has_dataflow()) {
        dataflow.emplace_back(event.dataflow().header(), take(event.dataflow().payload_bytes()));
        v1::dataflow::Frame frame;  // the worker starts runs only to report a failed launch
        ASSERT_TRUE(frame.ParseFromString(event.dataflow().header()));
        for (const auto& start : frame.starts()) ASSERT_TRUE(launch_failed.emplace_back().ParseFromString(start.argument()));
      }
    }
    EXPECT_EQ(offset, bytes.size()) << "payload that belongs to no message";
  }
  bool CanSendBulk() const override { return bulk_open; }
  void Close(absl::Status reason) override { closed = reason; }
  net::Counters counters() const override { return {}; }
  const std::string& peer() const override { return peer_; }
  net::PeerProof proof() const override { return net::PeerProof::kOwn; }

  bool repeats = false;  // commands may be answered twice, if the answers are the same
  int repeated = 0;      // the second answers
  std::function<void(const v1::Done&)> on_done;
  std::map<uint64_t, absl::Status> done;
  std::map<uint64_t, absl::Status> poisoned;  // runs of programs, by op
  std::vector<v1::Joined> joined;
  std::map<uint64_t, v1::Fetched> fetched;
  std::map<uint64_t, std::string> fetched_bytes;
  std::map<uint64_t, v1::Compiled> compiled;
  std::map<uint64_t, v1::Described> described;
  std::vector<v1::LaunchFailed> launch_failed;
  std::vector<std::pair<std::string, std::string>> dataflow;  // headers and payloads
  std::vector<uint64_t> taken;
  std::vector<v1::HostCall> host_calls;
  std::vector<std::string> host_call_bytes;
  absl::Status closed;
  bool bulk_open = true;
  int chunks = 0;
  int frames = 0;

 private:
  void AddDone(uint64_t op, const absl::Status& status) {
    const auto [first, is_new] = done.emplace(op, status);
    EXPECT_TRUE(is_new || (repeats && first->second == status)) << "op " << op << " done twice";
    repeated += is_new ? 0 : 1;
  }

  std::string peer_ = "test";
};

}  // namespace pw::worker
