#include "pathways/relay/download.h"

#include <sys/uio.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/client_callback.h"
#include "ifrt_proxy/grpc_ifrt_service.pb.h"
#include "pathways/base/status_macros.h"
#include "pathways/bulk/chunks.h"

namespace pw::relay {
namespace {

constexpr char kMethod[] = "/xla.ifrt.proxy.GrpcIfrtService/HostBufferLookup";
using Done = std::function<void(absl::StatusOr<Bytes>)>;

grpc::ByteBuffer Encode(const DownloadRequest& request) {
  xla::ifrt::proxy::GrpcHostBufferLookupRequest message;
  message.set_session_id(request.session);
  message.set_handle(request.handle);
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Through gRPC. Messages are taken as they arrive, unparsed: their data is copied once, to where it belongs. Deletes itself when the call has
// ended.
class Download final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Download(const std::shared_ptr<grpc::Channel>& controller, std::shared_ptr<grpc::ClientContext> context,
           const DownloadRequest& request, net::SharedMemory memory, Done done)
      : stub_(controller),
        context_(std::move(context)),
        request_(Encode(request)),
        memory_(std::move(memory)),
        done_(std::move(done)) {}

  void Start() {
    stub_.PrepareBidiStreamingCall(context_.get(), kMethod, grpc::StubOptions(), this);
    StartWriteLast(&request_, grpc::WriteOptions());
    StartRead(&chunk_);
    StartCall();  // this may be gone
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    error_ = Take();
    if (!error_.ok()) return context_->TryCancel();
    chunk_.Clear();
    StartRead(&chunk_);
  }

  void OnDone(const grpc::Status& status) override {
    if (error_.ok() && !status.ok())
      error_ = absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
    if (error_.ok() && received_ != memory_.size()) {
      error_ = absl::InternalError(absl::StrCat("the controller sent ", received_, " bytes of ", memory_.size()));
    }
    done_(error_.ok() ? absl::StatusOr<Bytes>(std::move(memory_).Freeze()) : error_);
    delete this;
  }

  absl::Status Take() {
    pieces_.clear();
    const absl::StatusOr<size_t> size = bulk::FindChunk(&chunk_, memory_.size() - received_, &pieces_);
    if (!size.ok()) {
      return absl::InternalError(absl::StrCat("the controller's answer of ", memory_.size(), " bytes went wrong after ",
                                              received_, ": ", size.status().message()));
    }
    PW_RETURN_IF_ERROR(memory_.Write(received_, pieces_));
    received_ += *size;
    return absl::OkStatus();
  }

  grpc::GenericStub stub_;
  const std::shared_ptr<grpc::ClientContext> context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer chunk_;
  std::vector<iovec> pieces_;
  net::SharedMemory memory_;
  size_t received_ = 0;
  absl::Status error_;
  Done done_;
};

}  // namespace

std::shared_ptr<grpc::ClientContext> StartDownload(const ControllerWays& controller, const DownloadRequest& request,
                                                   net::SharedMemoryFactory& factory, Done done) {
  absl::StatusOr<net::SharedMemory> memory = factory.Create(request.bytes);
  if (!memory.ok()) {
    done(memory.status());
    return nullptr;
  }
  auto context = std::make_shared<grpc::ClientContext>();
  auto through_grpc = [channel = controller.channel, context, request, done](net::SharedMemory into) {
    (new Download(channel, context, request, std::move(into), done))->Start();
  };
  if (controller.line == nullptr) {
    through_grpc(*std::move(memory));
  } else {
    controller.line->Fetch({request.session, request.handle}, *std::move(memory), done, std::move(through_grpc));
  }
  return context;
}

}  // namespace pw::relay
