// Reply: the obligation to answer one request. Move-only; answered exactly once, by Send or Fail. A Reply that is dropped answers INTERNAL,
// so that no client waits for ever. After the session has ended it does nothing. Strand-confined.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "pathways/frontend/handler.h"

namespace pw::frontend {

class Reply {
 public:
  Reply(std::weak_ptr<ClientSession> session, uint64_t op_id, bool numbered)
      : session_(std::move(session)), op_id_(op_id), numbered_(numbered), open_(true) {}
  Reply(Reply&& other) noexcept { *this = std::move(other); }
  Reply& operator=(Reply&& other) noexcept;
  ~Reply();

  // `response` has the payload of the request's kind; Send sets the metadata.
  void Send(IfrtResponse response) &&;
  void Fail(const absl::Status& error) &&;
  // Sends the response if `status` is OK, else fails with it.
  void Finish(const absl::Status& status, IfrtResponse response) &&;

  // The response does not count in seq_num.
  void Unnumber() { numbered_ = false; }

 private:
  void Answer(IfrtResponse response, bool numbered);

  std::weak_ptr<ClientSession> session_;
  uint64_t op_id_ = 0;
  bool numbered_ = false;
  bool open_ = false;
};

}  // namespace pw::frontend
