#include "pathways/frontend/session_stream.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "ifrt_proxy/grpc_ifrt_service.pb.h"
#include "pathways/base/log.h"
#include "pathways/frontend/convert/attributes.h"
#include "pathways/frontend/grpc_util.h"
#include "pathways/frontend/headers.h"
#include "pathways/frontend/shared_directory.h"
#include "pathways/frontend/versions.h"

namespace pw::frontend {
namespace {

// Limits for delaying responses that no thread of the client waits for.
constexpr size_t kGather = 256;
constexpr int64_t kGatherMilliseconds = 2;

absl::StatusOr<SessionHello> ReadHello(const grpc::CallbackServerContext& context) {
  std::optional<std::string> header = FindHeader(context, kSessionHeader);
  xla::ifrt::proxy::GrpcIfrtSessionMetadata metadata;
  if (!header || !metadata.ParseFromString(*header)) {
    return absl::InvalidArgumentError(absl::StrCat("a session must be opened with the header ", kSessionHeader));
  }
  if (absl::Status s = CheckVersion(metadata.version().protocol_version()); !s.ok()) return s;
  SessionHello hello;
  hello.protocol_version = metadata.version().protocol_version();
  hello.serdes_version = metadata.version().ifrt_serdes_version_number();
  hello.peer = context.peer();
  hello.initialization_data = AttributesFromProto(metadata.initialization_data());
  return hello;
}

grpc::ByteBuffer Serialize(const IfrtResponse& response) {
  grpc::ByteBuffer buffer;
  bool own;
  grpc::SerializationTraits<IfrtResponse>::Serialize(response, &buffer, &own);
  return buffer;
}

}  // namespace

SessionStream* SessionStream::Open(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<SessionStream>(std::move(server));
  stream->self_ = stream;
  absl::StatusOr<SessionHello> hello = ReadHello(*context);
  if (!hello.ok()) {
    stream->Finish(ToGrpc(hello.status()));
    return stream.get();
  }
  ServerState& state = *stream->server_;
  stream->session_ =
      std::make_shared<ClientSession>(state.cluster, &state.sessions, &state.plugins, *std::move(hello), stream.get());
  stream->StartRead(&stream->incoming_);
  return stream.get();
}

void SessionStream::OnReadDone(bool ok) {
  if (!ok) {
    server_->cluster->Post([self = shared_from_this()] { self->Close(grpc::Status::OK); });
    return;
  }
  const auto bytes = static_cast<int64_t>(incoming_.Length());
  IfrtRequest request;
  ++requests_read_;
  if (!grpc::SerializationTraits<IfrtRequest>::Deserialize(&incoming_, &request).ok()) {
    server_->cluster->Post([self = shared_from_this(), n = requests_read_] {
      self->Close(
          grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, absl::StrCat("request ", n, " of this session does not parse")));
    });
    return;
  }
  incoming_.Clear();
  ++backlog_requests_;
  backlog_bytes_ += bytes;
  DecodedRequest decoded = Decode(server_->handlers, request);
  decoded.bytes = bytes;
  server_->cluster->Post([self = shared_from_this(), decoded = std::move(decoded)]() mutable { self->Run(std::move(decoded)); });
  if (OverLimit(1)) {
    paused_ = true;
    if (OverLimit(1) || !paused_.exchange(false)) return;
  }
  StartRead(&incoming_);
}

bool SessionStream::OverLimit(int64_t share) const {
  const ServerOptions& options = server_->options;
  return backlog_requests_ + unsent_ > options.max_backlog_requests / share || backlog_bytes_ > options.max_backlog_bytes / share;
}

void SessionStream::ResumeReading() {
  if (paused_ && !closed_ && !OverLimit(2) && paused_.exchange(false)) StartRead(&incoming_);
}

void SessionStream::Run(DecodedRequest request) {
  if (!closing_) {
    urgent_ = request.handler == nullptr || request.handler->waited_for;
    running_ = true;
    session_->Run(std::move(request));
    running_ = false;
  }
  if (urgent_ || queued_.size() >= kGather) {
    Flush();
  } else if (!queued_.empty()) {
    FlushSoon();
  }
}

void SessionStream::Ran(int64_t bytes) {
  backlog_bytes_ -= bytes;
  --backlog_requests_;
  ResumeReading();
}

void SessionStream::FlushSoon() {
  if (std::exchange(flush_due_, true)) return;
  // Weak: the alarm holds its function until it is set again.
  const gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(kGatherMilliseconds, GPR_TIMESPAN));
  alarm_.Set(deadline, [weak = weak_from_this()](bool) {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->server_->cluster->Post([self] {
      self->flush_due_ = false;
      self->Flush();
    });
  });
}

void SessionStream::Write(IfrtResponse response) {
  // A client waits for the first execution of a program, which tells it the results' specs.
  if (response.loaded_executable_execute_response().outputs_size() > 0) urgent_ = true;
  queued_.push_back(Serialize(response));
  ++unsent_;
  if (!running_) Flush();
}

void SessionStream::Flush() {
  if (queued_.empty() && !closing_) return;
  more_queued_ = true;
  if (sending_now_) return;  // OnWriteDone posts Flush again
  more_queued_ = false;
  if (queued_.empty()) {
    if (!std::exchange(finished_, true)) Finish(close_status_);
    return;
  }
  batch_.swap(queued_);
  batch_next_ = 0;
  sending_now_ = true;
  more_queued_ = closing_;  // this batch is not the end of a stream that closes: the next Flush finishes it
  SendNext();
}

void SessionStream::SendNext() {
  grpc::WriteOptions options;
  if (batch_next_ + 1 < batch_.size()) options.set_buffer_hint();
  StartWrite(&batch_[batch_next_], options);
}

void SessionStream::OnWriteDone(bool ok) {
  // When a write fails the stream is broken: the read in flight fails too and closes the session.
  unsent_ -= ok ? 1 : static_cast<int64_t>(batch_.size() - batch_next_);
  ResumeReading();  // before sending_now_ ends: after Finish no read may start
  if (ok && ++batch_next_ < batch_.size()) return SendNext();
  batch_.clear();
  sending_now_ = false;
  if (more_queued_.exchange(false)) server_->cluster->Post([self = shared_from_this()] { self->Flush(); });
}

void SessionStream::OnCancel() {
  server_->cluster->Post([self = shared_from_this()] { self->Close(grpc::Status::CANCELLED); });
}

void SessionStream::Close(grpc::Status status) {
  if (std::exchange(closing_, true)) return;
  closed_ = true;
  close_status_ = std::move(status);
  if (session_ != nullptr) {
    session_->End();
    server_->shared.Forget(session_->wire_id());
    std::string folder = StringAttribute(session_->hello().initialization_data, kSharedSubdirectoryKey);
    if (server_->shared_directory_fd >= 0 && !folder.empty()) {
      server_->plugins.files->Post(
          [server = server_, folder = std::move(folder)] { RemoveClientFolder(server->shared_directory_fd, folder); });
    }
  }
  Flush();
}

}  // namespace pw::frontend
