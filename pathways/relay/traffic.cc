#include "pathways/relay/traffic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ifrt_proxy/grpc_ifrt_service.pb.h"
#include "pathways/bulk/headers.h"
#include "pathways/relay/store_ahead.h"

namespace pw::relay {
namespace {

// What gRPC reports when a peer or the way to it breaks, as opposed to what a controller answers on purpose. OK is among them:
// no controller ends an RPC well before it has answered.
bool IsConnectionLoss(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::UNKNOWN ||
         code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::OK;
}

grpc::Status Unreachable(const std::string& controller, const grpc::Status& end) {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE,
                      absl::StrCat("no Pathways controller answers at ", controller, " (", end.error_message(),
                                   "). Check that it runs (pathways status) and that PATHWAYS_ADDRESS is its address."));
}

class SessionTraffic : public Traffic {
 public:
  SessionTraffic(std::string controller, GoneSessions* gone, ClientFiles* files, std::string folder, ControllerLine* line)
      : controller_(std::move(controller)), gone_(gone), files_(files), folder_(std::move(folder)), line_(line) {}
  ~SessionTraffic() override {
    gone_->erase(session_id_);
    if (SendsAhead()) line_->DropAhead(session_id_);
    files_->Remove(session_id_);
  }

  void Passing(const grpc::ByteBuffer& request) override {
    Frame frame = ReadRequest(request);
    unanswered_.emplace(frame.op_id, frame);
    if (!SendsAhead()) return;
    for (const HostBuffer& buffer : HostBuffersOf(frame.kind, request)) {
      if (buffer.bytes >= StoreAhead::kWorthwhileBytes) files_->SendAhead(session_id_, buffer.handle, buffer.bytes, line_);
    }
  }

  void Returning(const grpc::ByteBuffer& response) override {
    const Frame frame = ReadResponse(response);
    unanswered_.erase(frame.op_id);
    if (frame.kind != kInit) return;
    session_id_ = ReadSessionId(response);
    files_->Add(session_id_, folder_);
  }

  // The line is for clients that leave their files here: one that shares memory with the controller needs none.
  void Answered(const Headers& headers) override {
    const auto found = headers.find(bulk::kLineHeader);
    if (folder_.empty() || line_ == nullptr || found == headers.end()) return;
    const std::pair<std::string, std::string> line =
        absl::StrSplit(std::string(found->second.data(), found->second.size()), absl::MaxSplits(' ', 1));
    line_->Open(absl::StrCat(controller_.substr(0, controller_.rfind(':')), ":", line.first), line.second);
  }

  bool TakesOver(grpc::Status* end) override {
    if (session_id_ == 0) {  // no session yet: the client is still connecting, and tries again or reports it
      if (end->error_code() == grpc::StatusCode::UNAVAILABLE) *end = Unreachable(controller_, *end);
      return false;
    }
    loss_ = DescribeLoss(controller_, *end);
    gone_->emplace(session_id_, loss_);
    return true;
  }

  std::vector<grpc::ByteBuffer> Owed() override {
    std::vector<Frame> frames;
    for (const auto& [op_id, frame] : unanswered_) frames.push_back(frame);
    unanswered_.clear();
    std::sort(frames.begin(), frames.end(), [](const Frame& a, const Frame& b) { return a.op_id < b.op_id; });
    std::vector<grpc::ByteBuffer> answers;
    answers.reserve(frames.size());
    for (const Frame& frame : frames) answers.push_back(Answer(frame, loss_));
    return answers;
  }

  std::vector<grpc::ByteBuffer> AnswersTo(const grpc::ByteBuffer& request) override {
    return {Answer(ReadRequest(request), loss_)};
  }

 private:
  bool SendsAhead() const { return line_ != nullptr && !folder_.empty() && session_id_ != 0; }

  const std::string controller_;
  GoneSessions* const gone_;
  ClientFiles* const files_;
  const std::string folder_;  // where the client leaves files for us
  ControllerLine* const line_;
  uint64_t session_id_ = 0;  // 0 until the init response has passed
  absl::flat_hash_map<uint64_t, Frame> unanswered_;
  absl::Status loss_;  // set by TakesOver
};

// HostBufferStore, HostBufferReadFromDisk and HostBufferDelete: their answers are empty messages.
class BufferTraffic : public Traffic {
 public:
  BufferTraffic(uint64_t session_id, const GoneSessions* gone) : session_id_(session_id), gone_(gone) {}

  bool AsksController() override { return !gone_->contains(session_id_); }
  void Returning(const grpc::ByteBuffer& response) override { answered_ = true; }

  bool TakesOver(grpc::Status* end) override {
    if (end->ok() || answered_) return false;
    return IsConnectionLoss(end->error_code()) || gone_->contains(session_id_);
  }

  std::vector<grpc::ByteBuffer> Last() override {
    grpc::Slice empty;
    return {grpc::ByteBuffer(&empty, 1)};
  }

 private:
  const uint64_t session_id_;  // 0: unknown
  const GoneSessions* const gone_;
  bool answered_ = false;
};

// GetVersion, HostBufferLookup, and whatever a newer client may call: nothing to take over, but a lost controller is named.
class PlainTraffic : public Traffic {
 public:
  explicit PlainTraffic(std::string controller) : controller_(std::move(controller)) {}
  bool TakesOver(grpc::Status* end) override {
    if (end->error_code() == grpc::StatusCode::UNAVAILABLE) *end = Unreachable(controller_, *end);
    return false;
  }

 private:
  const std::string controller_;
};

std::string Header(const grpc::GenericServerContext& context, const char* name) {
  return bulk::FindHeader(context, name).value_or("");
}

uint64_t StoreSessionId(const grpc::GenericServerContext& context) {
  xla::ifrt::proxy::GrpcHostBufferStoreMetadata metadata;
  return metadata.ParseFromString(Header(context, bulk::kStoreHeader)) ? metadata.session_id() : 0;
}

}  // namespace

absl::Status DescribeLoss(const std::string& controller, const grpc::Status& end) {
  constexpr char kRemedy[] =
      "Arrays that lived there are lost. Start the program again, or in the same process: jax.clear_caches(); "
      "jax.extend.backend.clear_backends(), which connects anew once a controller runs there.";
  if (IsConnectionLoss(end.error_code())) {
    return absl::UnavailableError(absl::StrCat("the connection to the Pathways controller at ", controller, " was lost",
                                               end.error_message().empty() ? "" : absl::StrCat(" (", end.error_message(), ")"),
                                               ". ", kRemedy));
  }
  return absl::Status(
      static_cast<absl::StatusCode>(end.error_code()),
      absl::StrCat("the Pathways controller at ", controller, " ended this session: ", end.error_message(), ". ", kRemedy));
}

std::unique_ptr<Traffic> MakeTraffic(const grpc::GenericServerContext& context, const std::string& controller, GoneSessions* gone,
                                     ClientFiles* files, ControllerLine* line) {
  const std::string& method = context.method();
  if (absl::EndsWith(method, "/IfrtSession")) {
    return std::make_unique<SessionTraffic>(controller, gone, files, ClientFiles::FolderIn(Header(context, bulk::kSessionHeader)),
                                            line);
  }
  if (absl::EndsWith(method, "/HostBufferStore")) return std::make_unique<BufferTraffic>(StoreSessionId(context), gone);
  if (absl::EndsWith(method, "/HostBufferReadFromDisk") || absl::EndsWith(method, "/HostBufferDelete")) {
    return std::make_unique<BufferTraffic>(0, gone);
  }
  return std::make_unique<PlainTraffic>(controller);
}

}  // namespace pw::relay
