// PythonRights: as whom, and within which limits, clients' Python functions run on this host. Clients' functions are clients' code, so an operator can name
// a user for them who owns nothing, and limit what they take.
//
// The system's own tools give the rights: setpriv the user, prlimit the limits (util-linux, on every Debian). They replace themselves by the interpreter. So
// the interpreter, its packages and the folders above must be readable for that user.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/net/socket.h"

namespace pw::worker {

struct PythonRights {
  std::string user;          // empty: this process's own
  int64_t memory_bytes = 0;  // private memory of each process; 0: no limit
  int64_t processes = 0;     // processes and threads of the user, on the whole machine; 0: no limit. Needs a user
};

// Returns an error, for the operator, if this process cannot give these rights.
absl::Status CheckRights(const PythonRights& rights);

// A folder for one process's temporary files, which no other user can read. It is removed with all that is in it. A worker that is killed leaves its folders:
// a lock shows which ones are in use, and whoever makes a folder removes those that are not.
class PrivateFolder {
 public:
  // `user`: who owns it; empty: this process's own.
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Create(const std::string& user);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  PrivateFolder(std::string path, net::Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  const std::string path_;
  const net::Fd lock_;
};

// Returns the command that runs `command` with these rights and this folder for temporary files.
std::vector<std::string> WithRights(const PythonRights& rights, const std::string& temporary,
                                    const std::vector<std::string>& command);

}  // namespace pw::worker
