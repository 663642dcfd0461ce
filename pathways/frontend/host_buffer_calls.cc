#include "pathways/frontend/host_buffer_calls.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/grpc_util.h"
#include "pathways/frontend/shared_directory.h"

namespace pw::frontend {
namespace {

using xla::ifrt::proxy::GrpcHostBufferLookupRequest;
using xla::ifrt::proxy::GrpcHostBufferStoreMetadata;

constexpr char kStoreHeader[] = "ifrt-proxy-grpc-host-buffer-store-metadata-bin";
constexpr size_t kChunk = size_t{1} << 20;

absl::Status CheckSize(const ServerOptions& options, int64_t size) {
  if (size < 0) return absl::InvalidArgumentError(absl::StrCat("a host buffer of ", size, " bytes was announced"));
  if (size <= options.max_host_buffer_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a host buffer of ", size, " bytes is over this server's limit of ",
                                                   options.max_host_buffer_bytes, "; cut the array into smaller shards or raise the limit"));
}

// Where an arriving host buffer is put together: memory that workers of this machine can map, if it is large, else ordinary memory.
class Assembly {
 public:
  absl::Status Allocate(net::SharedMemoryFactory* factory, int64_t size) {
    if (static_cast<size_t>(size) >= net::SharedMemoryFactory::kWorthwhileBytes) {
      if (auto shared = factory->Create(static_cast<size_t>(size)); shared.ok()) {
        shared_ = *std::move(shared);
        return absl::OkStatus();
      }
    }
    PW_ASSIGN_OR_RETURN(own_, TryAllocate(size));
    return absl::OkStatus();
  }
  size_t size() const { return shared_.has_value() ? shared_->size() : own_.size(); }
  size_t received() const { return received_; }
  absl::Status Take(grpc::ByteBuffer* chunk) {
    if (!shared_.has_value()) {
      PW_ASSIGN_OR_RETURN(const size_t size, TakeChunk(chunk, own_.data() + received_, own_.size() - received_));
      received_ += size;
      return absl::OkStatus();
    }
    pieces_.clear();
    PW_ASSIGN_OR_RETURN(const size_t size, FindChunk(chunk, shared_->size() - received_, &pieces_));
    PW_RETURN_IF_ERROR(shared_->Write(received_, pieces_));
    received_ += size;
    return absl::OkStatus();
  }
  Bytes Freeze() && { return shared_.has_value() ? std::move(*shared_).Freeze() : std::move(own_).Freeze(); }

 private:
  std::optional<net::SharedMemory> shared_;
  AlignedBytes own_{0};
  size_t received_ = 0;
  std::vector<iovec> pieces_;
};

// HostBufferStore. Announced bytes count against the session from the first turn on the strand to the end of the call.
class Store final : public grpc::ServerReadReactor<grpc::ByteBuffer>, public std::enable_shared_from_this<Store> {
 public:
  Store(std::shared_ptr<ServerState> server, grpc::ByteBuffer* response) : server_(std::move(server)) { *response = EmptyMessage(); }

  static Store* Open(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
    auto call = std::make_shared<Store>(std::move(server), response);
    call->self_ = call;
    std::optional<std::string> header = FindHeader(*context, kStoreHeader);
    if (!header || !call->metadata_.ParseFromString(*header)) {
      call->Finish(ToGrpc(absl::InvalidArgumentError(absl::StrCat("a host buffer must be announced by the header ", kStoreHeader))));
    } else if (absl::Status s = CheckSize(call->server_->options, call->metadata_.buffer_size()); !s.ok()) {
      call->Finish(ToGrpc(s));
    } else {
      call->server_->cluster->Post([call] { call->Admit(); });
    }
    return call.get();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return OnEnd();
    if (absl::Status taken = data_.Take(&chunk_); !taken.ok()) return PostEnd(taken);
    chunk_.Clear();
    StartRead(&chunk_);
  }
  void OnDone() override { self_.reset(); }

 private:
  // Strand.
  void Admit() {
    auto session = server_->sessions.Find(metadata_.session_id());
    if (!session.ok()) return End(session.status());
    if (absl::Status s = (*session)->ReserveReceiving(metadata_.buffer_size(), server_->options.max_receiving_bytes_per_session); !s.ok()) {
      return End(s);
    }
    session_ = *session;
    if (absl::Status allocated = data_.Allocate(&server_->shared, metadata_.buffer_size()); !allocated.ok()) return End(allocated);
    StartRead(&chunk_);
  }

  void OnEnd() {
    if (data_.received() != data_.size()) {
      return PostEnd(absl::InvalidArgumentError(absl::StrCat("host buffer ", metadata_.handle(), " was announced with ", data_.size(),
                                                             " bytes and ended after ", data_.received())));
    }
    server_->cluster->Post([self = shared_from_this(), data = std::move(data_).Freeze()]() mutable {
      auto session = self->session_.lock();
      if (session == nullptr || !session->open()) return self->End(absl::NotFoundError("the session has ended"));
      self->End(session->session().StoreHostBuffer(self->metadata_.handle(), std::move(data)));
    });
  }

  void PostEnd(absl::Status status) {
    server_->cluster->Post([self = shared_from_this(), status = std::move(status)] { self->End(status); });
  }

  // Strand.
  void End(const absl::Status& status) {
    if (auto session = session_.lock()) session->ReleaseReceiving(metadata_.buffer_size());
    Finish(ToGrpc(status));
  }

  const std::shared_ptr<ServerState> server_;
  std::shared_ptr<Store> self_;
  GrpcHostBufferStoreMetadata metadata_;
  std::weak_ptr<ClientSession> session_;  // of the strand
  Assembly data_;
  grpc::ByteBuffer chunk_;
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
    (*session)->session().LookupHostBuffer(request.handle(), [self = shared_from_this()](absl::StatusOr<Bytes> data) {
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

// Strand.
absl::Status StoreRead(ServerState& server, const GrpcHostBufferStoreMetadata& metadata, absl::StatusOr<Bytes> data) {
  if (!data.ok()) return data.status();
  auto session = server.sessions.Find(metadata.session_id());
  if (!session.ok()) return session.status();
  return (*session)->session().StoreHostBuffer(metadata.handle(), *std::move(data));
}

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* StoreHostBuffer(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context,
                                                           grpc::ByteBuffer* response) {
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
    call->Finish(ToGrpc(session.ok() ? (*session)->session().DeleteHostBuffer(handle) : session.status()));
  });
  return call;
}

grpc::ServerUnaryReactor* ReadHostBufferFromDisk(std::shared_ptr<ServerState> server, grpc::CallbackServerContext* context,
                                                 const xla::ifrt::proxy::GrpcHostBufferReadFromDiskRequest* request) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  absl::Status refused = CheckSize(server->options, request->metadata().buffer_size());
  if (server->shared_directory_fd < 0) {
    refused = absl::FailedPreconditionError("this server has no shared directory: start it with one, or unset "
                                            "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY in the client's environment");
  }
  if (!refused.ok()) {
    call->Finish(ToGrpc(refused));
    return call;
  }
  server->cluster->Post([server, call, metadata = request->metadata()] {
    auto session = server->sessions.Find(metadata.session_id());
    if (!session.ok()) return call->Finish(ToGrpc(session.status()));
    std::string folder = StringAttribute((*session)->hello().initialization_data, kSharedSubdirectoryKey);
    server->plugins.files->Post([server, call, metadata, folder = std::move(folder)] {
      absl::StatusOr<Bytes> data = TakeSharedFile(server->shared_directory_fd, folder, metadata.handle(), metadata.buffer_size(), &server->shared);
      server->cluster->Post([server, call, metadata, data = std::move(data)]() mutable {
        call->Finish(ToGrpc(StoreRead(*server, metadata, std::move(data))));
      });
    });
  });
  return call;
}

}  // namespace pw::frontend
