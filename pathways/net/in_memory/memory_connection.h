// MemoryEnd: one end of an in-process connection. Each end queues the frames sent to it until it delivers them on its own
// strand.
//
// Locks: one per end; no function holds two. Any thread may call any method.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pathways/base/threads/strand.h"
#include "pathways/net/handler_gate.h"
#include "pathways/net/transport.h"

namespace pw::net {

// Counters of a whole network.
struct MemoryTotals {
  std::atomic<uint64_t> frames_sent = 0, bytes_sent = 0, frames_received = 0, bytes_received = 0;
  Counters Read() const { return {frames_sent, bytes_sent, frames_received, bytes_received}; }
};

class MemoryEnd : public std::enable_shared_from_this<MemoryEnd> {
 public:
  MemoryEnd(Executor* executor, std::string peer, const Limits& limits, bool hands_over,
            std::shared_ptr<MemoryTotals> network_totals);
  static void Join(const std::shared_ptr<MemoryEnd>& a, const std::shared_ptr<MemoryEnd>& b);

  void Start(Connection::Handler* handler);
  void Send(std::string header, std::vector<Bytes> payload, Lane lane);
  bool CanSendBulk();
  void Close(absl::Status reason);
  void Abandon();
  Counters counters() const { return counts_.Read(); }
  const std::string& peer() const { return peer_name_; }

 private:
  // Called by the other end.
  void Receive(Frame frame, Lane lane);
  bool HasRoom();
  void PeerClosed();
  void PeerDrained();

  void ScheduleLocked();
  void Deliver();
  // Returns false, with the turn ended, if there is nothing to deliver.
  bool DeliverOne();
  void Popped(size_t bulk_bytes);

  const std::string peer_name_;
  const Limits limits_;
  const bool hands_over_;
  const std::shared_ptr<MemoryTotals> network_totals_;
  std::weak_ptr<MemoryEnd> peer_;  // set by Join, then constant
  Strand strand_;
  HandlerGate<Connection::Handler> gate_;
  std::atomic<bool> closing_ = false;
  MemoryTotals counts_;

  std::mutex mu_;
  std::deque<Frame> urgent_;  // guarded by mu_, as all below
  std::deque<Frame> bulk_;
  size_t bulk_bytes_ = 0;
  bool peer_waits_ = false;  // CanSendBulk of the other end returned false
  bool started_ = false;
  bool scheduled_ = false;
  bool finished_ = false;
  std::optional<absl::Status> reason_;  // set: OnClosed follows once the lanes are empty
};

class MemoryConnection : public Connection {
 public:
  explicit MemoryConnection(std::shared_ptr<MemoryEnd> end, PeerProof proof = PeerProof::kOwn)
      : end_(std::move(end)), proof_(proof) {}
  ~MemoryConnection() override { end_->Abandon(); }

  void Start(Handler* handler) override { end_->Start(handler); }
  void Send(std::string header, std::vector<Bytes> payload, Lane lane) override {
    end_->Send(std::move(header), std::move(payload), lane);
  }
  bool CanSendBulk() const override { return end_->CanSendBulk(); }
  void Close(absl::Status reason) override { end_->Close(std::move(reason)); }
  Counters counters() const override { return end_->counters(); }
  const std::string& peer() const override { return end_->peer(); }
  PeerProof proof() const override { return proof_; }

 private:
  const std::shared_ptr<MemoryEnd> end_;
  const PeerProof proof_;
};

}  // namespace pw::net
