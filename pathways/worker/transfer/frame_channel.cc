#include "pathways/worker/transfer/frame_channel.h"

#include "absl/strings/str_cat.h"
#include "pathways/base/unreachable_host.h"

namespace pw::worker {
namespace v1 = pathways::v1;

FrameChannel::FrameChannel(const WorkerContext* context, std::function<void(HostId)> connect)
    : context_(context), connect_(std::move(connect)) {}

void FrameChannel::SendFrame(HostId to, std::string header, std::vector<Bytes> payload) {
  v1::PeerMessage message;
  size_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  message.mutable_dataflow()->set_header(std::move(header));
  message.mutable_dataflow()->set_payload_bytes(bytes);
  Send(to, message, std::move(payload));
}

void FrameChannel::SendReport(HostId to, v1::Report report) {
  v1::PeerMessage message;
  *message.mutable_report() = std::move(report);
  Send(to, message, {});
}

void FrameChannel::SendTurn(HostId to, const v1::LoopTurn& turn) {
  v1::PeerMessage message;
  *message.mutable_loop_turn() = turn;
  Send(to, message, {});
}

void FrameChannel::SendBranch(HostId to, const v1::BranchChosen& chosen) {
  v1::PeerMessage message;
  *message.mutable_branch_chosen() = chosen;
  Send(to, message, {});
}

// The dataflow has its own windows, reports and decisions are small, so none of them waits for the link's window.
void FrameChannel::Send(HostId to, const v1::PeerMessage& message, std::vector<Bytes> payload) {
  auto it = peers_.find(to);
  if (it == peers_.end())
    return PathBroken(to, UnreachableHostError(to, absl::StrCat(context_->NameOf(to), " is not in the cluster")));
  Peer& peer = it->second;
  if (peer.link != nullptr) return peer.link->Send(message.SerializeAsString(), std::move(payload), net::Lane::kBulk);
  peer.waiting.emplace_back(message.SerializeAsString(), std::move(payload));
  connect_(to);
}

void FrameChannel::Connected(HostId host, net::FrameSink* link) {
  Peer& peer = peers_[host];
  peer.link = link;
  for (auto& [header, payload] : std::exchange(peer.waiting, {}))
    link->Send(std::move(header), std::move(payload), net::Lane::kBulk);
}

void FrameChannel::Broken(HostId host, const absl::Status& status) {
  peers_[host] = Peer();
  PathBroken(host, status);
}

void FrameChannel::Remove(HostId host, const absl::Status& status) {
  peers_.erase(host);
  PathBroken(host, status);
}

void FrameChannel::TellLeft(HostId host, const absl::Status& status) {
  if (frame_receiver_ != nullptr) frame_receiver_->OnLeft(host, status);
  TellGone(host, status);
}

void FrameChannel::PathBroken(HostId host, const absl::Status& reason) {
  context_->strand()->Post([this, alive = context_->alive(), host, reason] {
    if (!alive.expired() && frame_receiver_ != nullptr) frame_receiver_->OnPathBroken(host, reason);
    if (!alive.expired() && report_receiver_ != nullptr) report_receiver_->OnReportsLost(host);
    if (!alive.expired()) TellGone(host, reason);
  });
}

void FrameChannel::IncomingLost(HostId host, const absl::Status& status) {
  if (frame_receiver_ != nullptr) frame_receiver_->OnPathBroken(host, status);
  TellGone(host, status);
}

void FrameChannel::TellGone(HostId host, const absl::Status& status) {
  if (turn_receiver_ != nullptr) turn_receiver_->OnHostGone(host, status);
  if (branch_receiver_ != nullptr) branch_receiver_->OnHostGone(host, status);
}

absl::Status FrameChannel::OnFrame(HostId from, const v1::DataflowFrame& frame, Bytes payload) {
  if (frame.payload_bytes() != payload.size())
    return absl::InvalidArgumentError("a dataflow frame's announced size differs from its own");
  if (frame_receiver_ != nullptr) frame_receiver_->OnPeerFrame(from, frame, std::move(payload));
  return absl::OkStatus();
}

void FrameChannel::OnReport(HostId from, const v1::Report& report) {
  if (report_receiver_ != nullptr) report_receiver_->OnReport(from, report);
}

void FrameChannel::OnTurn(HostId from, const v1::LoopTurn& turn) {
  if (turn_receiver_ != nullptr) turn_receiver_->OnTurn(from, turn);
}

void FrameChannel::OnBranch(HostId from, const v1::BranchChosen& chosen) {
  if (branch_receiver_ != nullptr) branch_receiver_->OnBranch(from, chosen);
}

}  // namespace pw::worker
