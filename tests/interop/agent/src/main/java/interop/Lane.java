package interop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** One thread that does one thing after the other: an owner of locks. */
final class Lane {
    private final BlockingQueue<Runnable> work = new LinkedBlockingQueue<>();
    private final Thread thread;

    Lane(String name) {
        thread = new Thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    void submit(Runnable task) {
        work.add(task);
    }

    void interrupt() {
        thread.interrupt();
    }

    private void run() {
        while (true) {
            Runnable next;
            try {
                next = work.take();
            } catch (InterruptedException spurious) {
                continue; // An interrupt that came after the command had ended.
            }
            next.run();
        }
    }
}
