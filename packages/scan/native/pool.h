// The threads of a kernel. They take tasks of all its scans in turn.

#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "scan.h"

namespace hers {

class Pool {
 public:
  explicit Pool(size_t threads);
  ~Pool() { shutDown(); }

  size_t threads() const { return count_; }
  const std::shared_ptr<Spares>& spares() const { return spares_; }
  void start(std::shared_ptr<Scan> scan);
  void stop(Scan& scan);
  void release(Scan& scan);
  /** Runs a chore on one of the threads, or here once they are gone. */
  void run(std::function<void()> chore);
  /** Stops all scans and ends the threads. */
  void shutDown();

 private:
  void work();
  bool take(std::shared_ptr<Scan>& scan, Task& task);
  bool retireOver(std::unique_lock<std::mutex>& lock);

  const size_t count_;
  const std::shared_ptr<Spares> spares_ = std::make_shared<Spares>();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Scan>> scans_;
  std::vector<std::function<void()>> chores_;
  size_t turn_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hers
