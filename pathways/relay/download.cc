#include "pathways/relay/download.h"

#include <sys/uio.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/support/client_callback.h"
#include "ifrt_proxy/grpc_ifrt_service.grpc.pb.h"

namespace pw::relay {
namespace {

using xla::ifrt::proxy::GrpcHostBufferLookupRequest;
using xla::ifrt::proxy::GrpcHostBufferLookupResponse;
using xla::ifrt::proxy::GrpcIfrtService;
using Done = std::function<void(absl::StatusOr<Bytes>)>;

class Download final : public grpc::ClientReadReactor<GrpcHostBufferLookupResponse> {
 public:
  Download(const std::shared_ptr<grpc::Channel>& controller, const DownloadRequest& request, net::SharedMemory memory, Done done)
      : stub_(GrpcIfrtService::NewStub(controller)), memory_(std::move(memory)), done_(std::move(done)) {
    request_.set_session_id(request.session);
    request_.set_handle(request.handle);
  }

  std::shared_ptr<grpc::ClientContext> Start() {
    std::shared_ptr<grpc::ClientContext> context = context_;  // this may be gone after StartCall
    stub_->async()->HostBufferLookup(context_.get(), &request_, this);
    StartRead(&chunk_);
    StartCall();
    return context;
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    const size_t size = chunk_.data().size();
    if (size > memory_.size() - received_) {
      error_ = absl::InternalError(absl::StrCat("the controller sends more than the ", memory_.size(), " bytes that were announced"));
    } else {
      const iovec piece = {chunk_.mutable_data()->data(), size};
      error_ = memory_.Write(received_, {&piece, 1});
    }
    if (!error_.ok()) return context_->TryCancel();
    received_ += size;
    StartRead(&chunk_);
  }

  void OnDone(const grpc::Status& status) override {
    if (error_.ok() && !status.ok()) error_ = absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
    if (error_.ok() && received_ != memory_.size()) {
      error_ = absl::InternalError(absl::StrCat("the controller sent ", received_, " bytes of ", memory_.size()));
    }
    done_(error_.ok() ? absl::StatusOr<Bytes>(std::move(memory_).Freeze()) : error_);
    delete this;
  }

  const std::unique_ptr<GrpcIfrtService::Stub> stub_;
  const std::shared_ptr<grpc::ClientContext> context_ = std::make_shared<grpc::ClientContext>();
  GrpcHostBufferLookupRequest request_;
  GrpcHostBufferLookupResponse chunk_;
  net::SharedMemory memory_;
  size_t received_ = 0;
  absl::Status error_;
  Done done_;
};

}  // namespace

std::shared_ptr<grpc::ClientContext> StartDownload(const std::shared_ptr<grpc::Channel>& controller, const DownloadRequest& request,
                                                   net::SharedMemoryFactory& factory, Done done) {
  absl::StatusOr<net::SharedMemory> memory = factory.Create(request.bytes);
  if (!memory.ok()) {
    done(memory.status());
    return nullptr;
  }
  return (new Download(controller, request, *std::move(memory), std::move(done)))->Start();
}

}  // namespace pw::relay
