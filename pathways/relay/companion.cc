#include "pathways/relay/companion.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "asio/executor_work_guard.hpp"
#include "asio/post.hpp"
#include "asio/read.hpp"
#include "asio/write.hpp"
#include "grpcpp/client_context.h"
#include "pathways/base/log.h"
#include "pathways/v1/client.grpc.pb.h"

namespace pw::relay {
namespace {

// A protobuf message cannot be larger; what does not fit is answered with an error.
constexpr uint64_t kMaxAnswer = (uint64_t{1} << 31) - (1 << 20);
constexpr uint64_t kDropBytes = 1 << 20;  // at a time

// Each counts something that JSON can count, and a header has few enough of them: no overflow.
uint64_t SumOf(const std::vector<size_t>& sizes) {
  uint64_t sum = 0;
  for (size_t size : sizes) sum = std::min(sum + size, uint64_t{1} << 62);
  return sum;
}

}  // namespace

// The gRPC half. Its callbacks come on gRPC's threads and only post.
class Companion::Stream : public grpc::ClientBidiReactor<pathways::v1::HostCallAnswer, pathways::v1::HostCallRequest> {
 public:
  Stream(std::shared_ptr<Companion> owner, const std::shared_ptr<grpc::Channel>& channel)
      : owner_(std::move(owner)),
        work_(asio::make_work_guard(owner_->socket_.get_executor())),
        stub_(pathways::v1::ClientCompanion::NewStub(channel)) {
    stub_->async()->HostCalls(&context_, this);
    AddHold();  // the companion starts operations from its own thread until Release()
    StartRead(&call_);
    StartCall();
  }

  // Cancels. The stream deletes itself when gRPC is done with it.
  void Release() {
    context_.TryCancel();
    RemoveHold();
  }
  const pathways::v1::HostCallRequest& call() const { return call_; }
  void ReadNext() { StartRead(&call_); }
  void Send(const pathways::v1::HostCallAnswer* answer) { StartWrite(answer); }

 private:
  void OnReadDone(bool ok) override {
    Post([owner = owner_, ok] { ok ? owner->OnCall() : owner->Close(); });
  }
  void OnWriteDone(bool ok) override {
    if (ok) Post([owner = owner_] { owner->OnSentUp(); });
  }
  void OnDone(const grpc::Status& status) override {
    if (!status.ok() && status.error_code() != grpc::StatusCode::CANCELLED) {
      PW_LOG_WARNING << "host callbacks: the controller ended the channel: " << status.error_message();
    }
    Post([this] { delete this; });
  }
  template <class F>
  void Post(F f) {
    asio::post(work_.get_executor(), std::move(f));
  }

  const std::shared_ptr<Companion> owner_;
  asio::executor_work_guard<Socket::executor_type> work_;  // the io_context runs until the stream has ended
  std::unique_ptr<pathways::v1::ClientCompanion::Stub> stub_;
  grpc::ClientContext context_;
  pathways::v1::HostCallRequest call_;
};

Companion::Companion(Socket socket, std::shared_ptr<grpc::Channel> channel) : socket_(std::move(socket)), channel_(std::move(channel)) {}

void Companion::Close() {
  if (std::exchange(closed_, true)) return;
  asio::error_code ignored;
  (void)socket_.close(ignored);
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->Release();
}

// ---- Python to controller ----

void Companion::ReadLength() {
  asio::async_read(socket_, asio::buffer(length_), [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->Close();
    uint32_t length = 0;
    for (int i = 0; i < 4; ++i) length |= uint32_t{self->length_[i]} << (8 * i);
    self->ReadHeader(length);
  });
}

void Companion::ReadHeader(uint32_t length) {
  if (length > kMaxHeader) {
    PW_LOG_ERROR << "callback socket: a header of " << length << " bytes; closing the connection";
    return Close();
  }
  header_.resize(length);
  asio::async_read(socket_, asio::buffer(header_), [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->Close();
    self->OnHeader();
  });
}

void Companion::OnHeader() {
  auto message = ParseHeader(header_);
  if (!message.ok() || message->companion.empty() != (stream_ != nullptr)) {
    PW_LOG_ERROR << "callback socket: " << (message.ok() ? "the token must come first, and once" : message.status().message())
                 << "; closing the connection";
    return Close();
  }
  message_ = *std::move(message);
  if (stream_ == nullptr) {
    OpenStream(message_.companion);
    return ReadLength();
  }
  if (const uint64_t total = SumOf(message_.result_sizes); total > kMaxAnswer) return DropPayload(total);
  std::vector<asio::mutable_buffer> payload;
  for (size_t i = 0; i < message_.result_sizes.size(); ++i) {
    std::string* result = message_.answer.mutable_results(static_cast<int>(i));
    result->resize(message_.result_sizes[i]);
    payload.push_back(asio::buffer(*result));
  }
  asio::async_read(socket_, payload, [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->Close();
    self->OnPayload();
  });
}

void Companion::OnPayload() {
  SendUp(std::move(message_.answer));
  ReadLength();
}

void Companion::DropPayload(uint64_t left) {
  if (left == 0) {
    message_.answer.clear_results();
    message_.answer.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
    message_.answer.mutable_status()->set_message("a host callback returned more than 2 GiB; return the data in parts");
    return OnPayload();
  }
  dropped_.resize(std::min(left, kDropBytes));
  asio::async_read(socket_, asio::buffer(dropped_), [self = shared_from_this(), left](asio::error_code error, size_t bytes) {
    error ? self->Close() : self->DropPayload(left - bytes);
  });
}

void Companion::OpenStream(const std::string& token) {
  stream_ = new Stream(shared_from_this(), channel_);  // deletes itself
  pathways::v1::HostCallAnswer hello;
  hello.set_companion(token);
  SendUp(std::move(hello));
}

void Companion::SendUp(pathways::v1::HostCallAnswer answer) {
  if (stream_ == nullptr) return;
  answers_.push_back(std::move(answer));
  if (answers_.size() == 1) stream_->Send(&answers_.front());
}

void Companion::OnSentUp() {
  answers_.pop_front();
  if (!answers_.empty() && stream_ != nullptr) stream_->Send(&answers_.front());
}

// ---- controller to Python ----

void Companion::OnCall() {
  if (closed_) return;
  const auto& call = stream_->call();
  call_header_ = EncodeCall(call);
  std::vector<asio::const_buffer> parts = {asio::buffer(call_header_)};
  for (const auto& operand : call.operands()) parts.push_back(asio::buffer(operand.data()));
  asio::async_write(socket_, parts, [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->Close();
    if (self->stream_ != nullptr) self->stream_->ReadNext();
  });
}

}  // namespace pw::relay
