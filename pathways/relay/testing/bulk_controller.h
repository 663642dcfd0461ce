// The controller's end of a bulk line, for tests: it has one buffer, of handle 1, and takes buffers of one size.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "pathways/bulk/line.h"
#include "pathways/net/asio_transport.h"

namespace pw::relay::testing {

class BulkController final : public bulk::Line::Owner {
 public:
  explicit BulkController(size_t room) : into_(room) {
    std::fill_n(into_.data(), room, 0);
    auto listener = transport_.Listen("127.0.0.1:0", [this](auto connection) {
      line_ = std::make_unique<bulk::Line>(std::move(connection), this);
      line_->Start();
      pathways::v1::BulkFrame greeting;
      greeting.mutable_greeting()->set_secret("open sesame");
      line_->Send(greeting);
      met_.set_value();
    });
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  const std::string& address() const { return listener_->address(); }
  // As sessions are told of it.
  std::string announcement() const { return address().substr(address().rfind(':') + 1) + " open sesame"; }
  void AwaitLine() { met_.get_future().wait(); }
  // From now on it does not answer.
  std::atomic<bool> silent = false;
  // So many stores have been asked for.
  std::atomic<int> stores = 0;
  void AwaitQuestion() { asked_.get_future().wait(); }
  std::string stored() { return std::string(reinterpret_cast<const char*>(into_.data()), into_.size()); }
  void Close() { line_->Close(absl::UnavailableError("enough")); }

 private:
  void OnBulkFrame(pathways::v1::BulkFrame frame) override {
    if (silent) return asked_.set_value();
    if (frame.has_fetch()) {
      if (frame.fetch().handle() != 1) return line_->SendDone(frame.call(), absl::NotFoundError("no such buffer"));
      line_->SendParts(frame.call(), Bytes::Copy("contents"));
      return line_->SendDone(frame.call(), absl::OkStatus());
    }
    if (frame.has_done()) {
      absl::Status status = bulk::StatusOf(frame.done());
      status.Update(line_->Landed(frame.call(), into_.size()));
      return line_->SendDone(frame.call(), status);
    }
    ++stores;
    if (frame.store().bytes() != into_.size()) return line_->SendDone(frame.call(), absl::ResourceExhaustedError("no room"));
    line_->Expect(frame.call(), {into_.owner(), into_.data()}, into_.size());
    pathways::v1::BulkFrame ready;
    ready.set_call(frame.call());
    ready.mutable_ready();
    line_->Send(ready);
  }
  void OnBulkClosed(const absl::Status&) override {}

  AlignedBytes into_;
  std::promise<void> met_, asked_;
  std::unique_ptr<bulk::Line> line_;
  std::unique_ptr<net::Listener> listener_;
  net::AsioTransport transport_;  // last: no callback runs once it has gone
};

}  // namespace pw::relay::testing
