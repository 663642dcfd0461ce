// FrameLink: one connection of the session protocol. Parses frames on the transport's threads and hands them to its owner's strand, in order.
//
// Invariants:
//   FL-1  the owner hears OnLinkClosed once, last
//   FL-2  a frame that does not parse, or whose payload does not add up, closes the connection with a reason that says so
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "pathways/net/transport.h"
#include "pathways/session/frames.h"

namespace pw::session {

using LinkId = uint64_t;

template <class Frame>
class FrameLink final : public net::Connection::Handler {
 public:
  // Called on the strand.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnFrame(LinkId link, Frame frame, std::vector<Bytes> payloads) = 0;
    virtual void OnLinkClosed(LinkId link, const absl::Status& reason) = 0;
  };
  // Runs a function with the owner on its strand, or drops it if the owner is gone. Any thread.
  using PostToOwner = std::function<void(absl::AnyInvocable<void(Owner&) &&>)>;

  FrameLink(LinkId id, std::unique_ptr<net::Connection> connection, PostToOwner post)
      : id_(id), post_(std::move(post)), connection_(std::move(connection)) {}

  // Delivery begins.
  void Start() { connection_->Start(this); }
  LinkId id() const { return id_; }
  net::Connection& connection() { return *connection_; }

 private:
  void OnFrame(net::Frame raw) override {
    ++frames_;
    Frame frame;
    if (!frame.ParseFromString(raw.header))
      return connection_->Close(absl::InvalidArgumentError(absl::StrCat("frame ", frames_, " does not parse")));
    absl::StatusOr<std::vector<Bytes>> payloads = SplitPayload(frame, raw.payload);
    if (!payloads.ok()) return connection_->Close(payloads.status());
    post_([id = id_, frame = std::move(frame), payloads = *std::move(payloads)](Owner& owner) mutable {
      owner.OnFrame(id, std::move(frame), std::move(payloads));
    });
  }
  void OnClosed(const absl::Status& reason) override {
    post_([id = id_, reason](Owner& owner) { owner.OnLinkClosed(id, reason); });
  }

  const LinkId id_;
  const PostToOwner post_;
  uint64_t frames_ = 0;                                // on the transport's threads, which call one at a time
  const std::unique_ptr<net::Connection> connection_;  // last: closed before the rest goes
};

}  // namespace pw::session
