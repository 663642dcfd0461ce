#include "bench/floor/service.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace pw::bench {

using namespace xla::ifrt::proxy;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kOurProtocolVersion = 25;

// Returns the host buffer that a HostBufferStore fills; a bare stream names none.
std::optional<HostBuffers::Key> StoreKey(const grpc::CallbackServerContext& context) {
  const auto it = context.client_metadata().find("ifrt-proxy-grpc-host-buffer-store-metadata-bin");
  GrpcHostBufferStoreMetadata metadata;
  if (it == context.client_metadata().end() || !metadata.ParseFromArray(it->second.data(), static_cast<int>(it->second.size()))) {
    return std::nullopt;
  }
  return HostBuffers::Key{metadata.session_id(), metadata.handle()};
}

grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* context) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

// A session's stream. Owns itself until gRPC is done with it; later answers are dropped.
class SessionStream final : public grpc::ServerBidiReactor<IfrtRequest, IfrtResponse> {
 public:
  static SessionStream* Start(uint64_t id, int devices, bool answer_all, HostBuffers* buffers) {
    auto stream = std::make_shared<SessionStream>(id, devices, answer_all, buffers);
    stream->self_ = stream;
    stream->StartRead(&stream->request_);
    return stream.get();
  }
  SessionStream(uint64_t id, int devices, bool answer_all, HostBuffers* buffers) : session_(id, devices, answer_all, buffers) {}

  void OnReadDone(bool ok) override {
    if (!ok) return End();
    session_.Handle(request_, [weak = std::weak_ptr<SessionStream>(self_)](IfrtResponse response) {
      if (const auto stream = weak.lock()) stream->Write(std::move(response));
    });
    StartRead(&request_);
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    responses_.pop_front();
    if (!ok || ended_) responses_.clear();
    if (!responses_.empty()) return StartWrite(&responses_.front());
    if (ended_) Finish(grpc::Status::OK);
  }
  void OnDone() override { self_.reset(); }

 private:
  void Write(IfrtResponse response) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    responses_.push_back(std::move(response));
    if (responses_.size() == 1) StartWrite(&responses_.front());
  }
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    if (responses_.empty()) Finish(grpc::Status::OK);
  }

  FloorSession session_;
  IfrtRequest request_;
  std::shared_ptr<SessionStream> self_;
  std::mutex mutex_;
  std::deque<IfrtResponse> responses_;  // the first is being written
  bool ended_ = false;
};

class Store final : public grpc::ServerReadReactor<GrpcHostBufferStoreRequest> {
 public:
  Store(std::optional<HostBuffers::Key> key, HostBuffers* buffers) : key_(key), buffers_(buffers) { StartRead(&chunk_); }
  void OnReadDone(bool ok) override {
    if (ok) return StartRead(&chunk_);
    if (key_.has_value()) buffers_->SetArrived(*key_);
    Finish(grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  const std::optional<HostBuffers::Key> key_;
  HostBuffers* const buffers_;
  GrpcHostBufferStoreRequest chunk_;
};

class Lookup final : public grpc::ServerWriteReactor<GrpcHostBufferLookupResponse> {
 public:
  explicit Lookup(int64_t size) : left_(size) {
    chunk_.set_data(std::string(std::min<size_t>(size, kChunkBytes), '\0'));
    Next();
  }
  void OnWriteDone(bool ok) override {
    left_ -= static_cast<int64_t>(chunk_.data().size());
    if (!ok || left_ <= 0) return Finish(grpc::Status::OK);
    Next();
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (left_ < static_cast<int64_t>(chunk_.data().size())) chunk_.mutable_data()->resize(left_);
    StartWrite(&chunk_);
  }

  int64_t left_;
  GrpcHostBufferLookupResponse chunk_;
};

}  // namespace

grpc::ServerUnaryReactor* FloorService::GetVersion(grpc::CallbackServerContext* context, const GrpcGetVersionRequest* request,
                                                   GrpcGetVersionResponse* response) {
  *response->mutable_version() = request->max_version();
  response->mutable_version()->set_protocol_version(std::min(request->max_version().protocol_version(), kOurProtocolVersion));
  return Finished(context);
}

grpc::ServerBidiReactor<IfrtRequest, IfrtResponse>* FloorService::IfrtSession(grpc::CallbackServerContext* context) {
  return SessionStream::Start(next_session_++, devices_, answer_all_, &buffers_);
}

grpc::ServerReadReactor<GrpcHostBufferStoreRequest>* FloorService::HostBufferStore(grpc::CallbackServerContext* context,
                                                                                   GrpcHostBufferStoreResponse* response) {
  return new Store(StoreKey(*context), &buffers_);
}

grpc::ServerWriteReactor<GrpcHostBufferLookupResponse>* FloorService::HostBufferLookup(
    grpc::CallbackServerContext* context, const GrpcHostBufferLookupRequest* request) {
  return new Lookup(buffers_.SizeOf({request->session_id(), request->handle()}, static_cast<int64_t>(request->handle())));
}

grpc::ServerUnaryReactor* FloorService::HostBufferDelete(grpc::CallbackServerContext* context,
                                                         const GrpcHostBufferDeleteRequest* request,
                                                         GrpcHostBufferDeleteResponse* response) {
  buffers_.Forget({request->session_id(), request->handle()});
  return Finished(context);
}

}  // namespace pw::bench
