#include "pathways/frontend/host_buffer_calls.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/chunks.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/grpc_util.h"
#include "pathways/frontend/headers.h"
#include "pathways/frontend/shared_directory.h"
#include "pathways/frontend/upload_buffer.h"

namespace pw::frontend {
namespace {

using xla::ifrt::proxy::GrpcHostBufferLookupRequest;
using xla::ifrt::proxy::GrpcHostBufferStoreMetadata;

constexpr size_t kChunk = size_t{1} << 20;

// Returns true for an error that is not the request's fault: memory is short, or the controller has gone.
bool IsOfTheCluster(const absl::Status& error) { return absl::IsResourceExhausted(error) || absl::IsUnavailable(error); }

// HostBufferStore. Reads nothing until the session has room for the buffer; meanwhile gRPC's flow control holds the client back.
//
// A client ends its session if a store fails. If the client is not at fault (memory is short, the controller has gone), the store
// therefore succeeds and its data is dropped. The array for which it was meant becomes the error.
class Store final : public grpc::ServerReadReactor<grpc::ByteBuffer>, public std::enable_shared_from_this<Store> {
 public:
  Store(std::shared_ptr<ServerState> server, grpc::ByteBuffer* response) : server_(std::move(server)) {
    *response = EmptyMessage();
  }

  static Store* Open(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
    auto call = std::make_shared<Store>(std::move(server), response);
    call->self_ = call;
    std::optional<std::string> header = FindHeader(*context, kStoreHeader);
    if (!header || !call->metadata_.ParseFromString(*header)) {
      call->Finish(
          ToGrpc(absl::InvalidArgumentError(absl::StrCat("a host buffer must be announced by the header ", kStoreHeader))));
    } else {
      call->server_->cluster->Post([call] { call->Announce(); });
    }
    return call.get();
  }

  void OnReadDone(bool ok) override {
    if (dropping_) return ok ? StartRead(&chunk_) : Finish(grpc::Status::OK);
    if (!ok) return OnEnd();
    if (absl::Status taken = data_.Take(&chunk_); !taken.ok()) return PostEnd(taken);
    chunk_.Clear();
    StartRead(&chunk_);
  }
  void OnDone() override { self_.reset(); }

 private:
  // Strand.
  void Announce() {
    auto session = server_->sessions.Find(metadata_.session_id());
    if (!session.ok()) return Finish(ToGrpc(session.status()));
    session_ = *session;
    (*session)->session().AnnounceHostBuffer(metadata_.handle(), metadata_.buffer_size(),
                                             [self = shared_from_this()](absl::Status admitted) {
                                               if (admitted.ok()) return self->Receive();
                                               IsOfTheCluster(admitted) ? self->Drop(admitted) : self->Finish(ToGrpc(admitted));
                                             });
  }

  // Strand.
  void Receive() {
    if (absl::Status allocated = data_.Allocate(&server_->shared, metadata_.buffer_size(), metadata_.session_id());
        !allocated.ok())
      return Drop(allocated);
    StartRead(&chunk_);
  }

  // Strand.
  void Drop(const absl::Status& error) {
    if (auto session = session_.lock(); session != nullptr && session->open())
      session->session().FailHostBuffer(metadata_.handle(), error);
    dropping_ = true;
    StartRead(&chunk_);
  }

  void OnEnd() {
    if (data_.received() != data_.size()) {
      return PostEnd(absl::InvalidArgumentError(absl::StrCat("host buffer ", metadata_.handle(), " was announced with ",
                                                             data_.size(), " bytes and ended after ", data_.received())));
    }
    server_->cluster->Post([self = shared_from_this(), data = std::move(data_).Freeze()]() mutable {
      auto session = self->session_.lock();
      if (session == nullptr || !session->open()) return self->Finish(ToGrpc(absl::NotFoundError("the session has ended")));
      self->Finish(ToGrpc(session->session().StoreHostBuffer(self->metadata_.handle(), std::move(data))));
    });
  }

  void PostEnd(absl::Status status) {
    server_->cluster->Post([self = shared_from_this(), status = std::move(status)] { self->End(status); });
  }

  // Strand. The buffer was admitted and did not come.
  void End(const absl::Status& status) {
    if (auto session = session_.lock(); session != nullptr && session->open())
      session->session().ForgetHostBuffer(metadata_.handle());
    Finish(ToGrpc(status));
  }

  const std::shared_ptr<ServerState> server_;
  std::shared_ptr<Store> self_;
  GrpcHostBufferStoreMetadata metadata_;
  std::weak_ptr<ClientSession> session_;  // of the strand
  UploadBuffer data_;
  grpc::ByteBuffer chunk_;
  bool dropping_ = false;
};

class Lookup final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public std::enable_shared_from_this<Lookup> {
 public:
  explicit Lookup(std::shared_ptr<ServerState> server) : server_(std::move(server)) {}

  static Lookup* Open(std::shared_ptr<ServerState> server, const grpc::ByteBuffer* message) {
    auto call = std::make_shared<Lookup>(std::move(server));
    call->self_ = call;
    grpc::ByteBuffer copy(*message);
    GrpcHostBufferLookupRequest request;
    if (!grpc::SerializationTraits<GrpcHostBufferLookupRequest>::Deserialize(&copy, &request).ok()) {
      call->Finish(ToGrpc(absl::InvalidArgumentError("a host-buffer lookup does not parse")));
    } else {
      call->server_->cluster->Post([call, request] { call->Ask(request); });
    }
    return call.get();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    SendNext();
  }
  void OnDone() override { self_.reset(); }

 private:
  // Strand.
  void Ask(const GrpcHostBufferLookupRequest& request) {
    auto session = server_->sessions.Find(request.session_id());
    if (!session.ok()) return Finish(ToGrpc(session.status()));
    (*session)->LookupHostBuffer(request.handle(), [self = shared_from_this()](absl::StatusOr<Bytes> data) {
      if (!data.ok()) return self->Finish(ToGrpc(data.status()));
      self->rest_ = *std::move(data);
      self->SendNext();
    });
  }

  void SendNext() {
    const size_t size = std::min(kChunk, rest_.size());
    chunk_ = MakeChunk(rest_.Slice(0, size));
    rest_ = rest_.Slice(size, rest_.size() - size);
    if (rest_.empty()) return StartWriteAndFinish(&chunk_, grpc::WriteOptions(), grpc::Status::OK);
    StartWrite(&chunk_);
  }

  const std::shared_ptr<ServerState> server_;
  std::shared_ptr<Lookup> self_;
  Bytes rest_;
  grpc::ByteBuffer chunk_;
};

// HostBufferReadFromDisk. Takes the file once the session has room for it. Errors are handled as in Store.
class ReadFile : public std::enable_shared_from_this<ReadFile> {
 public:
  ReadFile(std::shared_ptr<ServerState> server, grpc::ServerUnaryReactor* call, const GrpcHostBufferStoreMetadata& metadata)
      : server_(std::move(server)), call_(call), metadata_(metadata) {}

  // All on the strand.
  void Announce() {
    auto session = server_->sessions.Find(metadata_.session_id());
    if (!session.ok()) return call_->Finish(ToGrpc(session.status()));
    session_ = *session;
    folder_ = StringAttribute((*session)->hello().initialization_data, kSharedSubdirectoryKey);
    (*session)->session().AnnounceHostBuffer(metadata_.handle(), metadata_.buffer_size(),
                                             [self = shared_from_this()](absl::Status admitted) {
                                               if (!admitted.ok()) return self->Refuse(admitted);
                                               self->Take();
                                             });
  }

 private:
  void Refuse(const absl::Status& error) {
    auto session = session_.lock();
    if (!IsOfTheCluster(error) || session == nullptr || !session->open()) return call_->Finish(ToGrpc(error));
    session->session().FailHostBuffer(metadata_.handle(), error);
    server_->plugins.files->Post([self = shared_from_this()] {
      RemoveSharedFile(self->server_->shared_directory_fd, self->folder_, self->metadata_.handle());
      self->call_->Finish(grpc::Status::OK);
    });
  }
  void Take() {
    server_->plugins.files->Post([self = shared_from_this()] {
      ServerState& server = *self->server_;
      absl::StatusOr<Bytes> data = TakeSharedFile(server.shared_directory_fd, self->folder_, self->metadata_.handle(),
                                                  self->metadata_.buffer_size(), &server.shared);
      server.cluster->Post([self, data = std::move(data)]() mutable { self->Store(std::move(data)); });
    });
  }
  void Store(absl::StatusOr<Bytes> data) {
    auto session = session_.lock();
    if (session == nullptr || !session->open()) return call_->Finish(ToGrpc(absl::NotFoundError("the session has ended")));
    if (data.ok()) return call_->Finish(ToGrpc(session->session().StoreHostBuffer(metadata_.handle(), *std::move(data))));
    session->session().ForgetHostBuffer(metadata_.handle());
    Refuse(data.status());
  }

  const std::shared_ptr<ServerState> server_;
  grpc::ServerUnaryReactor* const call_;
  const GrpcHostBufferStoreMetadata metadata_;
  std::string folder_;
  std::weak_ptr<ClientSession> session_;
};

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* StoreHostBuffer(std::shared_ptr<ServerState> server,
                                                           grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  return Store::Open(std::move(server), context, response);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* LookupHostBuffer(std::shared_ptr<ServerState> server, grpc::CallbackServerContext*,
                                                             const grpc::ByteBuffer* request) {
  return Lookup::Open(std::move(server), request);
}

grpc::ServerUnaryReactor* DeleteHostBuffer(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context,
                                           const xla::ifrt::proxy::GrpcHostBufferDeleteRequest* request) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  server->cluster->Post([server, call, id = request->session_id(), handle = request->handle()] {
    auto session = server->sessions.Find(id);
    call->Finish(ToGrpc(session.ok() ? (*session)->DeleteHostBuffer(handle) : session.status()));
  });
  return call;
}

grpc::ServerUnaryReactor* ReadHostBufferFromDisk(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context,
                                                 const xla::ifrt::proxy::GrpcHostBufferReadFromDiskRequest* request) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  if (server->shared_directory_fd < 0) {
    call->Finish(ToGrpc(
        absl::FailedPreconditionError("this server has no shared directory: start it with one, or unset "
                                      "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY in the client's environment")));
    return call;
  }
  auto file = std::make_shared<ReadFile>(server, call, request->metadata());
  server->cluster->Post([file] { file->Announce(); });
  return call;
}

}  // namespace pw::frontend
