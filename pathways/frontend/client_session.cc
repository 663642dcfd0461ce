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
  if (held_.empty() && !waits()) return RunNow(std::move(request));
  held_.push_back(std::move(request));
  if (held_.size() == 1) RunHeld();
}

void ClientSession::RunHeld() {
  while (sink_ != nullptr && !held_.empty()) {
    if (opening_) return;  // runs again when the session is open
    if (session_ != nullptr && session_->suspended()) {
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
  ServedCounts& counts = table_->counts();
  counts.request_bytes += bytes;
  ++counts.requests[request.handler == nullptr ? 0 : static_cast<size_t>(request.handler->kind)];
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
  held_.clear();
  if (session_ == nullptr) return;
  PW_LOG_INFO << "client at " << hello_.peer << " has gone: its session " << session_->id().v << " ends";
  table_->Remove(wire_id_, hello_.initialization_data);
  if (services_->compiler != nullptr) services_->compiler->Forget(*this);
  futures_.clear();
  plugin_executables_.clear();
  std::exchange(session_, nullptr).reset();
}

void ClientSession::Initialize(controller::ResultCallback<uint64_t> done) {
  if (session_ != nullptr) return std::move(done)(absl::FailedPreconditionError("init_request was sent twice in one session"));
  auto share = gang::ParseShareChange(StringAttribute(hello_.initialization_data, kWeightKey),
                                      StringAttribute(hello_.initialization_data, kPriorityKey));
  if (!share.ok()) return std::move(done)(share.status());
  const std::string on_hang = StringAttribute(hello_.initialization_data, kOnHangKey);
  if (!on_hang.empty() && on_hang != "end" && on_hang != "report")
    return std::move(done)(absl::InvalidArgumentError(absl::StrCat(kOnHangKey, " must be end or report")));
  opening_ = true;
  session::NewSession wanted{absl::StrCat("jax client at ", hello_.peer), *share};
  wanted.ends_on_hang = on_hang == "end";
  cluster_->OpenSession(std::move(wanted), [weak = weak_from_this(), done = std::move(done)](auto session) mutable {
    auto self = weak.lock();
    if (self == nullptr || !self->open()) return;  // the new session ends with this callback
    self->opening_ = false;
    std::move(done)(session.ok() ? self->OnOpened(*std::move(session)) : session.status());
    self->RunHeld();
  });
}

absl::StatusOr<uint64_t> ClientSession::OnOpened(std::shared_ptr<controller::Session> session) {
  session_ = std::move(session);
  cluster_info_ = cluster_->info();
  wire_id_ = table_->Add(shared_from_this());
  return wire_id_;
}

void ClientSession::LookupHostBuffer(Handle handle, controller::ResultCallback<Bytes> done) {
  if (!fetches_ahead_.LookupHostBuffer(handle, done)) session_->LookupHostBuffer(handle, std::move(done));
}

absl::Status ClientSession::DeleteHostBuffer(Handle handle) {
  return fetches_ahead_.DeleteHostBuffer(handle) ? absl::OkStatus() : session_->DeleteHostBuffer(handle);
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
  // The request was not understood, so the results' shape is unknown. Any will do: a client never reads an error array.
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
