// CutTransport: the network of one host, which a test cuts. It passes everything on to another transport. Everything happens on the
// test's thread. For tests only.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/threads/executor.h"
#include "pathways/net/transport.h"

namespace pw::worker {

class CutTransport final : public net::Transport {
 public:
  // Both outlive this, and this outlives its connections.
  CutTransport(net::Transport* under, Executor* executor) : under_(under), executor_(executor) {}

  absl::StatusOr<std::unique_ptr<net::Listener>> Listen(const std::string& address, AcceptCallback on_accept) override {
    return under_->Listen(address, std::move(on_accept));
  }
  void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) override {
    if (cut_) {
      return executor_->Post([on_done = std::move(on_done)] { on_done(absl::UnavailableError("the network is cut")); });
    }
    under_->Connect(address, timeout,
                    [this, on_done = std::move(on_done)](absl::StatusOr<std::unique_ptr<net::Connection>> made) {
                      if (made.ok()) {
                        ++connections;
                        made = std::make_unique<Cuttable>(this, *std::move(made));
                      }
                      on_done(std::move(made));
                    });
  }

  // Breaks the connections that this host has made: frames under way are lost, and both ends are told. Returns their number.
  size_t Break() {
    const std::vector<Cuttable*> open(open_.begin(), open_.end());
    for (Cuttable* one : open) one->Close(absl::UnavailableError("the network broke the connection"));
    return open.size();
  }
  // Breaks them, and lets this host make none until Heal.
  void Cut() {
    cut_ = true;
    Break();
  }
  void Heal() { cut_ = false; }
  // From now on, the present connections lose all frames, and neither end is told.
  void Hush() {
    for (Cuttable* one : open_) one->hushed = true;
  }

  int connections = 0;  // that were made

 private:
  class Cuttable final : public net::Connection, private net::Connection::Handler {
   public:
    Cuttable(CutTransport* owner, std::unique_ptr<net::Connection> inner) : owner_(owner), inner_(std::move(inner)) {
      owner_->open_.insert(this);
    }
    ~Cuttable() override { owner_->open_.erase(this); }

    void Start(net::Connection::Handler* handler) override {
      handler_ = handler;
      inner_->Start(this);
    }
    void Send(std::string header, std::vector<Bytes> payload, net::Lane lane) override {
      if (!hushed) inner_->Send(std::move(header), std::move(payload), lane);
    }
    bool CanSendBulk() const override { return inner_->CanSendBulk(); }
    void Close(absl::Status reason) override { inner_->Close(std::move(reason)); }
    net::Counters counters() const override { return inner_->counters(); }
    const std::string& peer() const override { return inner_->peer(); }
    net::PeerProof proof() const override { return inner_->proof(); }

    bool hushed = false;

   private:
    void OnFrame(net::Frame frame) override {
      if (!hushed) handler_->OnFrame(std::move(frame));
    }
    void OnClosed(const absl::Status& reason) override {
      owner_->open_.erase(this);
      handler_->OnClosed(reason);
    }
    absl::Status Admit(size_t header_bytes, size_t payload_bytes) override {
      return handler_->Admit(header_bytes, payload_bytes);
    }
    net::Place PlaceFor(const std::string& header, size_t payload_bytes) override {
      return handler_->PlaceFor(header, payload_bytes);
    }
    void OnBulkWritable() override { handler_->OnBulkWritable(); }

    CutTransport* const owner_;
    net::Connection::Handler* handler_ = nullptr;
    const std::unique_ptr<net::Connection> inner_;
  };

  net::Transport* const under_;
  Executor* const executor_;
  std::set<Cuttable*> open_;
  bool cut_ = false;
};

}  // namespace pw::worker
