#include "pathways/frontend/reply.h"

#include <utility>

#include "pathways/frontend/client_session.h"
#include "pathways/frontend/convert/status.h"

namespace pw::frontend {

Reply& Reply::operator=(Reply&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(op_id_, other.op_id_);
  std::swap(numbered_, other.numbered_);
  std::swap(open_, other.open_);
  return *this;
}

Reply::~Reply() {
  if (open_) std::move(*this).Fail(absl::InternalError("the server dropped this request without an answer"));
}

void Reply::Send(IfrtResponse response) && { Answer(std::move(response), numbered_); }

void Reply::Fail(const absl::Status& error) && {
  IfrtResponse response;
  *response.mutable_response_metadata()->mutable_status() = StatusToProto(error);
  Answer(std::move(response), false);
}

void Reply::Finish(const absl::Status& status, IfrtResponse response) && {
  if (status.ok()) return std::move(*this).Send(std::move(response));
  std::move(*this).Fail(status);
}

void Reply::Answer(IfrtResponse response, bool numbered) {
  if (!std::exchange(open_, false)) return;
  response.mutable_response_metadata()->set_op_id(op_id_);
  if (auto session = session_.lock()) session->Respond(std::move(response), numbered);
}

}  // namespace pw::frontend
