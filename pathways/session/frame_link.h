// FrameLink: one end of one connection of the session protocol (session.proto). Parses frames on the transport's threads and posts them, in
// order, to its owner's strand. SessionService receives frames of type ClientFrame, client::Link of type ControllerFrame.
//
// Invariants:
//   FL-1  OnLinkClosed is called exactly once, after the last OnFrame, unless the link is destroyed first
//   FL-2  a frame that does not parse, or whose payload sizes do not add up, closes the connection; the reason names the fault
//   FL-3  calls that were posted before the link was destroyed still arrive: the owner ignores those of a LinkId that it no longer has
//   FL-4  until Trust is called, a frame of more than kStrangerBytes closes the connection before memory is taken for it
#pragma once

#include <atomic>
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

// The largest frame of a peer that has not been let in.
inline constexpr size_t kStrangerBytes = 4 << 10;

template <class Frame>
class FrameLink final : public net::Connection::Handler {
 public:
  // Called on the strand.
  class Owner {
   public:
    virtual ~Owner() = default;
    // `payloads`: one for each message of the frame. `bytes`: the size of the frame.
    virtual void OnFrame(LinkId link, Frame frame, std::vector<Bytes> payloads, size_t bytes) = 0;
    virtual void OnLinkClosed(LinkId link, const absl::Status& reason) = 0;
  };
  // Runs a function with the owner on the owner's strand, or drops it if the owner is gone. Called on any thread.
  using PostToOwner = std::function<void(absl::AnyInvocable<void(Owner&) &&>)>;

  // `id`: chosen by the owner, to tell its links apart.
  FrameLink(LinkId id, std::unique_ptr<net::Connection> connection, PostToOwner post)
      : id_(id), post_(std::move(post)), connection_(std::move(connection)) {}

  // Starts delivery of frames.
  void Start() { connection_->Start(this); }
  // The peer is known: it may send large frames.
  void Trust() { trusted_.store(true, std::memory_order_release); }
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
    const size_t bytes = raw.header.size() + raw.payload.size();
    post_([id = id_, frame = std::move(frame), payloads = *std::move(payloads), bytes](Owner& owner) mutable {
      owner.OnFrame(id, std::move(frame), std::move(payloads), bytes);
    });
  }
  absl::Status Admit(size_t header_bytes, size_t payload_bytes) override {
    if (trusted_.load(std::memory_order_acquire) || (header_bytes <= kStrangerBytes && payload_bytes == 0))
      return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", header_bytes, " and ", payload_bytes,
                                                   " bytes came before the peer was let in; the limit is ", kStrangerBytes));
  }
  void OnClosed(const absl::Status& reason) override {
    post_([id = id_, reason](Owner& owner) { owner.OnLinkClosed(id, reason); });
  }

  const LinkId id_;
  const PostToOwner post_;
  std::atomic<bool> trusted_ = false;
  uint64_t frames_ = 0;                                // on the transport's threads, which do not call concurrently
  const std::unique_ptr<net::Connection> connection_;  // last member: closed before the others are destroyed
};

}  // namespace pw::session
