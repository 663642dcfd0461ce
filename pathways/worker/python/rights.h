// PythonRights: the user and the limits with which clients' Python functions run on this host. The functions are clients' code,
// so an operator can name a user for them who owns nothing, and limit their memory, their processes and the time of a call (which
// SessionPython watches).
//
// The system's own tools give the rights: setpriv sets the user, prlimit the limits (util-linux, on every Debian). Then they
// execute the interpreter in their place. So the user must be able to read the interpreter, its packages and the folders above
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/net/sockets/socket.h"

namespace pw::worker {

struct PythonRights {
  std::string user;          // empty: this process's own
  int64_t memory_bytes = 0;  // private memory of each process; 0: no limit
  int64_t processes = 0;     // processes and threads of the user, on the whole machine; 0: no limit. Needs a user
  double seconds = 0;        // that a call may take; 0: no limit
};

// Returns an error, for the operator, if this process cannot give these rights.
absl::Status CheckRights(const PythonRights& rights);

// A folder for one process's temporary files, which no other user can read. The destructor removes it with its contents. A worker
// that is killed leaves its folders: a lock shows which folders are in use, and Create removes the others.
class PrivateFolder {
 public:
  // `user`: the owner; empty: this process's own.
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
