#include "pathways/frontend/client_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/session_table.h"
#include "pathways/frontend/translation/translating_compiler.h"

namespace pw::frontend {

using controller::Handle;

DecodedRequest Decode(const HandlerTable& handlers, const IfrtRequest& request) {
  DecodedRequest decoded;
  decoded.op_id = request.request_metadata().op_id();
  decoded.user_context = request.request_metadata().user_context_id();
  decoded.handler = handlers.Find(request.request_case());
  if (decoded.handler != nullptr) decoded.action = decoded.handler->decode(request);
  return decoded;
}

ClientSession::ClientSession(controller::Cluster* cluster, SessionTable* table, const PluginServices* services,
                             SessionHello hello, ResponseSink* sink)
    : cluster_(cluster), table_(table), services_(services), hello_(std::move(hello)), sink_(sink) {}

ClientSession::~ClientSession() { End(); }

void ClientSession::Run(DecodedRequest request) {
  if (held_.empty() && (session_ == nullptr || !session_->suspended())) return RunNow(std::move(request));
  held_.push_back(std::move(request));
  if (held_.size() > 1) return;
  session_->WhenResumed([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->RunHeld();
  });
}

void ClientSession::RunHeld() {
  while (session_ != nullptr && !held_.empty()) {
    if (session_->suspended()) {
      return session_->WhenResumed([weak = weak_from_this()] {
        if (auto self = weak.lock()) self->RunHeld();
      });
    }
    DecodedRequest request = std::move(held_.front());
    held_.pop_front();
    RunNow(std::move(request));
  }
}

void ClientSession::RunNow(DecodedRequest request) {
  const int64_t bytes = request.bytes;
  CarryOut(std::move(request));
  if (sink_ != nullptr) sink_->Ran(bytes);
}

void ClientSession::CarryOut(DecodedRequest request) {
  if (request.user_context != 0) released_contexts_.push_back(request.user_context);
  Reply reply(weak_from_this(), request.op_id, request.handler != nullptr && request.handler->numbered);
  if (request.handler == nullptr) {
    return std::move(reply).Fail(
        absl::UnimplementedError("this request is of a kind that the server does not know; the client's jaxlib is newer than the "
                                 "server: use an older jaxlib or "
                                 "update the server"));
  }
  if (session_ == nullptr && request.handler->kind != IfrtRequest::kInitRequest) {
    return std::move(reply).Fail(absl::FailedPreconditionError(
        absl::StrCat("the first request of a session must be init_request, not ", request.handler->name)));
  }
  if (recorder_ != nullptr) recorder_->OnRequest(request.op_id, request.handler->name);
  std::move(request.action)(*this, std::move(reply));
}

void ClientSession::End() {
  sink_ = nullptr;
  if (session_ == nullptr) return;
  PW_LOG_INFO << "client at " << hello_.peer << " has gone: its session " << session_->id().v << " ends";
  table_->Remove(wire_id_, hello_.initialization_data);
  if (services_->compiler != nullptr) services_->compiler->Forget(*this);
  held_.clear();
  futures_.clear();
  plugin_executables_.clear();
  std::exchange(session_, nullptr).reset();
}

absl::StatusOr<uint64_t> ClientSession::Initialize() {
  if (session_ != nullptr) return absl::FailedPreconditionError("init_request was sent twice in one session");
  PW_ASSIGN_OR_RETURN(const gang::ShareChange share,
                      gang::ParseShareChange(StringAttribute(hello_.initialization_data, kWeightKey),
                                             StringAttribute(hello_.initialization_data, kPriorityKey)));
  PW_ASSIGN_OR_RETURN(session_, cluster_->OpenSession(absl::StrCat("jax client at ", hello_.peer)));
  if (!share.empty()) cluster_->ChangeShare(session_->id(), share).IgnoreError();  // it has been checked
  cluster_info_ = cluster_->info();
  wire_id_ = table_->Add(shared_from_this());
  return wire_id_;
}

std::shared_ptr<controller::HostCallHandler> ClientSession::companion() const {
  return table_->CompanionOf(hello_.initialization_data);
}

void ClientSession::AddFuture(Handle handle, WireFuture future) { futures_.insert_or_assign(handle, std::move(future)); }

std::optional<ClientSession::WireFuture> ClientSession::TakeFuture(Handle handle) {
  auto it = futures_.find(handle);
  if (it == futures_.end()) return std::nullopt;
  WireFuture future = std::move(it->second);
  futures_.erase(it);
  return future;
}

void ClientSession::Poison(absl::Span<const Handle> results, const absl::Status& error) {
  // The request was not understood, so neither is the shape of its results; a client never reads an array that is an error.
  buffers::ArraySpec spec;
  spec.dtype = buffers::DType::kPred;
  spec.sharding =
      buffers::Sharding::SingleDevice(cluster_info_->devices.empty() ? DeviceId(0) : cluster_info_->devices[0].id, "");
  for (Handle result : results) {
    if (result == 0) continue;
    const absl::Status status = session_->MakeErrorArray(result, spec, error);
    if (!status.ok()) {
      PW_LOG_DEBUG << "result " << result << " of a request that failed: " << status;
    }
  }
}

void ClientSession::Respond(IfrtResponse response, bool numbered) {
  if (sink_ == nullptr) return;
  if (recorder_ != nullptr) recorder_->OnAnswer(response.response_metadata().op_id());
  if (numbered) {
    auto* metadata = response.mutable_response_metadata();
    metadata->set_seq_num(next_seq_num_++);
    metadata->mutable_destroyed_user_context_ids()->Assign(released_contexts_.begin(), released_contexts_.end());
    released_contexts_.clear();
  }
  sink_->Write(std::move(response));
}

}  // namespace pw::frontend
