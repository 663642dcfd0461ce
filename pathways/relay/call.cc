#include "pathways/relay/call.h"

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "pathways/bulk/headers.h"

namespace pw::relay {
namespace {

// Headers that belong to one hop and are made anew for the next.
bool IsHopHeader(absl::string_view name) {
  return absl::StartsWith(name, ":") || absl::StartsWith(name, "grpc-") || name == "user-agent" || name == "content-type" ||
         name == "te";
}

template <class Metadata, class Add>
void CopyMetadata(const Metadata& from, Add add) {
  for (const auto& [name, value] : from) {
    if (IsHopHeader({name.data(), name.size()})) continue;
    add(std::string(name.data(), name.size()), std::string(value.data(), value.size()));
  }
}

}  // namespace

void Call::Event::Run(bool ok) {
  Call* const owner = call;
  --owner->under_way_;
  (owner->*handle)(ok);
  if (owner->under_way_ == 0) delete owner;
}

void Call::Lane::Push(const grpc::ByteBuffer& frame) {
  bytes += frame.Length();
  waiting.push_back(frame);
}

grpc::ByteBuffer Call::Lane::Pop() {
  grpc::ByteBuffer frame = waiting.front();
  waiting.pop_front();
  bytes -= frame.Length();
  return frame;
}

void Call::Await(Hub* hub) {
  Call* call = new Call(hub);  // deletes itself
  hub->service.RequestCall(&call->client_context_, &call->client_, hub->queue.get(), hub->queue.get(),
                           call->Begin(&call->accepted_));
}

Call::Call(Hub* hub) : hub_(hub), client_(&client_context_) {
  ++hub_->calls;
  client_context_.AsyncNotifyWhenDone(&gone_);
}

Call::~Call() { --hub_->calls; }

void* Call::Begin(Event* event) {
  ++under_way_;
  return event;
}

void Call::OnAccepted(bool ok) {
  if (!ok) {  // shutting down; the gone_ event never comes
    client_gone_ = true;
    return;
  }
  ++under_way_;  // gone_
  Await(hub_);
  traffic_ = MakeTraffic(client_context_, hub_->controller, &hub_->gone, &hub_->files, hub_->line);
  if (!traffic_->AsksController()) {
    TakeOver();
  } else if (hub_->files.folders.empty() || !absl::EndsWith(client_context_.method(), FileUpload::kMethod)) {
    StartController(client_context_.method());
  }  // else the request says what to ask
  ReadClient();
}

void Call::StartController(const std::string& method) {
  CopyMetadata(client_context_.client_metadata(),
               [this](const std::string& name, const std::string& value) { controller_context_.AddMetadata(name, value); });
  controller_context_.set_deadline(client_context_.deadline());
  controller_ = hub_->stub->PrepareCall(&controller_context_, method, hub_->queue.get());
  controller_->StartCall(Begin(&controller_started_));
}

// ---- client to controller ----

void Call::ReadClient() {
  if (up_.reading || up_.ended || up_.bytes > kWindow) return;
  up_.reading = true;
  client_.Read(&from_client_, Begin(&client_read_));
}

void Call::OnClientRead(bool ok) {
  up_.reading = false;
  if (!ok) {
    up_.ended = true;
  } else if (taken_over_) {
    for (const auto& answer : traffic_->AnswersTo(from_client_)) down_.Push(answer);
    from_client_.Clear();
    PumpDown();
  } else if (controller_ == nullptr && !ended_) {
    if (upload_ == nullptr) StartUpload();  // one request, one upload
  } else if (!ended_) {                     // what comes after the end is of no use to anyone
    traffic_->Passing(from_client_);
    up_.Push(from_client_);
    from_client_.Clear();
  }
  PumpUp();
  if (up_.ended && taken_over_) PumpDown();
  ReadClient();
}

void Call::StartUpload() {
  absl::StatusOr<std::unique_ptr<FileUpload>> upload = FileUpload::Open(&hub_->files, from_client_);
  if (!upload.ok()) return EndWith(upload.status());
  upload_ = *std::move(upload);
  if (upload_ == nullptr) {  // the controller's business
    up_.Push(from_client_);
    return StartController(client_context_.method());
  }
  const ControllerLine::Buffer buffer = upload_->buffer();
  if (!hub_->files.TakeAhead(buffer.session, buffer.handle)) return TakeFile();
  const Uploading uploading = BeginUploading();
  hub_->line->FinishAhead(buffer, upload_->bytes(), uploading.done, uploading.otherwise);
}

void Call::TakeFile() {
  if (const absl::Status taken = upload_->Take(); !taken.ok()) return EndWith(taken);
  if (hub_->line == nullptr) return UploadByCall();
  const Uploading uploading = BeginUploading();
  hub_->line->Store(upload_->buffer(), upload_->data(), uploading.done, uploading.otherwise);
}

// gRPC's alarm is the way from the line's thread to this one.
Call::Uploading Call::BeginUploading() {
  auto wake = [this, tag = Begin(&uploaded_)] { uploaded_alarm_.Set(hub_->queue.get(), gpr_now(GPR_CLOCK_MONOTONIC), tag); };
  auto done = [this, wake](absl::Status status) {
    uploaded_status_ = std::move(status);
    wake();
  };
  return {done, wake};
}

void Call::OnUploaded(bool ok) {
  if (client_gone_) return;
  if (uploaded_status_.has_value()) return EndWith(*uploaded_status_);
  upload_->taken() ? UploadByCall() : TakeFile();
}

// The controller has nothing to say any more, or was not asked.
void Call::EndWith(const absl::Status& status) {
  upload_ = nullptr;
  ended_ = true;
  end_ = grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
  grpc::Slice empty;
  if (status.ok()) down_.Push(grpc::ByteBuffer(&empty, 1));
  PumpDown();
}

void Call::UploadByCall() {
  controller_context_.AddMetadata(bulk::kStoreHeader, upload_->metadata());
  const std::string& method = client_context_.method();
  StartController(method.substr(0, method.size() - std::strlen(FileUpload::kMethod)) + FileUpload::kStoreMethod);
}

// Two at a time: gRPC writes one while it is given the next.
void Call::FeedUpload() {
  while (upload_ != nullptr && !upload_->done() && up_.waiting.size() < 2) up_.Push(upload_->Next());
}

void Call::PumpUp() {
  if (!started_ || ended_ || up_.writing) return;
  FeedUpload();
  if (!up_.waiting.empty()) {
    grpc::WriteOptions options;
    if (up_.waiting.size() > 1) options.set_buffer_hint();  // the next write follows at once and takes this one along
    up_.writing = true;
    const grpc::ByteBuffer frame = up_.Pop();
    controller_->Write(frame, options, Begin(&controller_written_));
  } else if (up_.ended && !half_closed_) {
    half_closed_ = true;
    controller_->WritesDone(Begin(&closed_));
  }
}

void Call::OnControllerWritten(bool ok) {
  up_.writing = false;
  PumpUp();  // after a failed write the read fails too, and brings the end
  ReadClient();
}

void Call::OnHalfClosed(bool ok) {}

// ---- controller to client ----

void Call::OnControllerStarted(bool ok) {
  started_ = ok;
  if (!ok) {
    controller_->Finish(&end_, Begin(&controller_ended_));
    return;
  }
  ReadController();
  PumpUp();
}

void Call::ReadController() {
  if (down_.reading || down_.ended || down_.bytes > kWindow) return;
  down_.reading = true;
  controller_->Read(&from_controller_, Begin(&controller_read_));
}

void Call::OnControllerRead(bool ok) {
  down_.reading = false;
  if (!ok) {
    down_.ended = true;
    controller_->Finish(&end_, Begin(&controller_ended_));
    return;
  }
  if (!client_gone_) {
    SendHeaders();
    traffic_->Returning(from_controller_);
    down_.Push(from_controller_);
    from_controller_.Clear();
    PumpDown();
  }
  ReadController();
}

void Call::SendHeaders() {
  if (std::exchange(headers_sent_, true)) return;
  traffic_->Answered(controller_context_.GetServerInitialMetadata());
  CopyMetadata(controller_context_.GetServerInitialMetadata(),
               [this](const std::string& name, const std::string& value) { client_context_.AddInitialMetadata(name, value); });
}

void Call::OnControllerEnded(bool ok) {
  ended_ = true;
  if (client_gone_) return;
  if (traffic_->TakesOver(&end_)) {
    TakeOver();
    return;
  }
  CopyMetadata(controller_context_.GetServerTrailingMetadata(),
               [this](const std::string& name, const std::string& value) { client_context_.AddTrailingMetadata(name, value); });
  PumpDown();
}

void Call::TakeOver() {
  taken_over_ = ended_ = true;
  upload_ = nullptr;
  up_.waiting.clear();  // Traffic has noted what they ask for
  up_.bytes = 0;
  for (const auto& answer : traffic_->Owed()) down_.Push(answer);
  PumpDown();
  ReadClient();
}

void Call::PumpDown() {
  if (client_gone_ || finishing_ || down_.writing) return;
  if (down_.waiting.empty() && taken_over_ && up_.ended) {
    for (const auto& frame : traffic_->Last()) down_.Push(frame);
    traffic_ = nullptr;
    taken_over_ = false;  // nothing is left to answer: what follows is the ordinary end
    end_ = grpc::Status::OK;
  }
  if (!down_.waiting.empty()) {
    grpc::WriteOptions options;
    if (down_.waiting.size() > 1) options.set_buffer_hint();
    down_.writing = true;
    const grpc::ByteBuffer frame = down_.Pop();
    client_.Write(frame, options, Begin(&client_written_));
  } else if (ended_ && !taken_over_) {
    finishing_ = true;
    client_.Finish(end_, Begin(&finished_));
  }
}

void Call::OnClientWritten(bool ok) {
  down_.writing = false;
  PumpDown();
  if (!ended_) ReadController();
}

void Call::OnFinished(bool ok) {}

void Call::OnClientGone(bool ok) {
  client_gone_ = true;
  up_.ended = true;
  down_.waiting.clear();
  down_.bytes = 0;
  if (controller_ == nullptr || ended_) return;
  controller_context_.TryCancel();
  if (started_) ReadController();  // the way to the end of the controller's half
}

}  // namespace pw::relay
