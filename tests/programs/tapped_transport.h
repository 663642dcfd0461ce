// TappedTransport: a worker's transport that shows a test the frames from the controller, and keeps the frames to it until the test lets the
// next one go. So a test decides in which order hosts answer. Connections between workers are left alone.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pathways/net/transport.h"

namespace pw::programs {

class TappedTransport final : public net::Transport {
 public:
  // `controller`: its address.
  TappedTransport(net::Transport* inner, std::string controller) : inner_(inner), controller_(std::move(controller)) {}

  absl::StatusOr<std::unique_ptr<net::Listener>> Listen(const std::string& address, AcceptCallback on_accept) override {
    return inner_->Listen(address, std::move(on_accept));
  }
  void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) override {
    if (address != controller_) return inner_->Connect(address, timeout, std::move(on_done));
    inner_->Connect(address, timeout, [this, on_done = std::move(on_done)](auto connection) {
      if (!connection.ok()) return on_done(connection.status());
      on_done(std::make_unique<TappedConnection>(this, *std::move(connection)));
    });
  }

  // Gets each frame's header.
  std::function<void(const std::string& header)> on_frame = [](const std::string&) {};
  // Keeps frames from now on, or lets all of them go.
  void Hold(bool hold) {
    hold_ = hold;
    while (!hold && LetGo()) {
    }
  }
  // Lets the next frame go. Returns false if there is none.
  bool LetGo() {
    if (held_.empty()) return false;
    std::function<void()> send = std::move(held_.front());
    held_.pop_front();
    send();
    return true;
  }

 private:
  class TappedConnection final : public net::Connection, private net::Connection::Handler {
   public:
    TappedConnection(TappedTransport* owner, std::unique_ptr<net::Connection> inner) : owner_(owner), inner_(std::move(inner)) {}
    ~TappedConnection() override { owner_->held_.clear(); }
    void Start(net::Connection::Handler* handler) override {
      handler_ = handler;
      inner_->Start(this);
    }
    void Send(std::string header, std::vector<Bytes> payload, net::Lane lane) override {
      if (!owner_->hold_) return inner_->Send(std::move(header), std::move(payload), lane);
      owner_->held_.push_back(
          [this, header = std::move(header), payload = std::move(payload), lane] { inner_->Send(header, payload, lane); });
    }
    bool CanSendBulk() const override { return inner_->CanSendBulk(); }
    void Close(absl::Status reason) override { inner_->Close(std::move(reason)); }
    net::Counters counters() const override { return inner_->counters(); }
    const std::string& peer() const override { return inner_->peer(); }
    net::PeerProof proof() const override { return inner_->proof(); }

   private:
    void OnFrame(net::Frame frame) override {
      owner_->on_frame(frame.header);
      handler_->OnFrame(std::move(frame));
    }
    void OnClosed(const absl::Status& reason) override { handler_->OnClosed(reason); }

    TappedTransport* const owner_;
    net::Connection::Handler* handler_ = nullptr;
    const std::unique_ptr<net::Connection> inner_;
  };

  net::Transport* const inner_;
  const std::string controller_;
  bool hold_ = false;
  std::deque<std::function<void()>> held_;
};

}  // namespace pw::programs
