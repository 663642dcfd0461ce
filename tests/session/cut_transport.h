// CutTransport: a transport that a test can cut. A cut loses everything in flight on the latest connection, in both directions,
// and notifies both ends.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pathways/net/transport.h"

namespace pw::session {

class CutTransport final : public net::Transport {
 public:
  explicit CutTransport(net::Transport* inner) : inner_(inner) {}

  absl::StatusOr<std::unique_ptr<net::Listener>> Listen(const std::string& address, AcceptCallback on_accept) override {
    return inner_->Listen(address, std::move(on_accept));
  }
  void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) override {
    if (out_of_reach) return on_done(absl::UnavailableError("the network is cut"));
    inner_->Connect(address, timeout, [this, on_done = std::move(on_done)](auto connection) {
      if (!connection.ok()) return on_done(connection.status());
      auto cut = std::make_unique<CutConnection>(this, *std::move(connection));
      current_ = cut.get();
      on_done(std::move(cut));
    });
  }
  // Returns false if there is no connection.
  bool Cut() {
    if (current_ == nullptr) return false;
    std::exchange(current_, nullptr)->Cut();
    ++cuts;
    return true;
  }

  bool out_of_reach = false;  // all attempts to connect fail
  int cuts = 0;

 private:
  class CutConnection final : public net::Connection, private net::Connection::Handler {
   public:
    CutConnection(CutTransport* owner, std::unique_ptr<net::Connection> inner) : owner_(owner), inner_(std::move(inner)) {}
    ~CutConnection() override {
      if (owner_->current_ == this) owner_->current_ = nullptr;
    }
    // From here on, frames of this end are not sent, and frames of the other end are not delivered.
    void Cut() {
      cut_ = true;
      inner_->Close(absl::UnavailableError("the network is cut"));
    }
    void Start(net::Connection::Handler* handler) override {
      handler_ = handler;
      inner_->Start(this);
    }
    void Send(std::string header, std::vector<Bytes> payload, net::Lane lane) override {
      if (!cut_) inner_->Send(std::move(header), std::move(payload), lane);
    }
    bool CanSendBulk() const override { return inner_->CanSendBulk(); }
    void Close(absl::Status reason) override { inner_->Close(std::move(reason)); }
    net::Counters counters() const override { return inner_->counters(); }
    const std::string& peer() const override { return inner_->peer(); }
    net::PeerProof proof() const override { return inner_->proof(); }

   private:
    void OnFrame(net::Frame frame) override {
      if (!cut_) handler_->OnFrame(std::move(frame));
    }
    void OnClosed(const absl::Status& reason) override { handler_->OnClosed(reason); }

    CutTransport* const owner_;
    net::Connection::Handler* handler_ = nullptr;
    bool cut_ = false;
    const std::unique_ptr<net::Connection> inner_;
  };

  net::Transport* const inner_;
  CutConnection* current_ = nullptr;
};

}  // namespace pw::session
