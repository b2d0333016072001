// An agent in Go: it does what the lines on standard input say with the locks of rueidislock. The
// orders are those of benchmarks/agent.py; a worker is a goroutine.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sys/unix"
)

const lease = 30 * time.Second // what the other peers use

type order struct {
	Do, URL, Name string
	Apart         bool
	Workers       int
	Work          float64
	Opens, Closes float64
}

type answer map[string]any

// clock reads the monotonic clock that all processes of the machine share, in seconds.
func clock() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return float64(now.Sec) + float64(now.Nsec)/1e9
}

func sleepUntil(moment float64) {
	time.Sleep(time.Duration((moment - clock()) * 1e9))
}

// open connects as rueidislock's README shows it for one server: one key for each lock. There is no
// next key to try, so TryNextAfter is no reason to give up: after a reply that took longer than its
// 20 ms, the waiter would wait for a message that nobody may send any more. For the same reason loop
// tracking is on, which the README has off: a client's own releases wake its waiters too.
func open(url string) (rueidislock.Locker, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyMajority: 1, KeyValidity: lease, TryNextAfter: lease,
	})
}

// lock is one worker's.
type lock struct {
	locker rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

// acquire asks anew after each second. A waiter that misses the one message which would wake it waits
// for ever, and some do.
func (l *lock) acquire() (err error) {
	for {
		waiting, giveUp := context.WithCancel(context.Background())
		timer := time.AfterFunc(time.Second, giveUp)
		_, l.cancel, err = l.locker.WithContext(waiting, l.name)
		if timer.Stop() {
			return err
		}
		if err == nil {
			l.cancel() // it came too late: the lock ends with what it was waited for
		}
	}
}

// release returns when the key is deleted.
func (l *lock) release() { l.cancel() }

// all runs work for each of so many workers, and returns the first error.
func all(workers int, work func(number int) error) error {
	errors := make([]error, workers)
	var group sync.WaitGroup
	for number := range workers {
		group.Go(func() { errors[number] = work(number) })
	}
	group.Wait()
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

type agent struct {
	opening order
	locks   []*lock
}

// open has each worker make a pair under a name of its own.
func (a *agent) open(opening order) error {
	locker, err := open(opening.URL)
	if err != nil {
		return err
	}
	a.opening, a.locks = opening, make([]*lock, opening.Workers)
	return all(opening.Workers, func(number int) error {
		own := &lock{locker: locker, name: fmt.Sprintf("%s:%d:%d", opening.Name, os.Getpid(), number)}
		if err := own.acquire(); err != nil {
			return err
		}
		own.release()
		a.locks[number] = own
		if !opening.Apart {
			a.locks[number] = &lock{locker: locker, name: opening.Name}
		}
		return nil
	})
}

func (a *agent) contend(opens, closes float64) (answer, error) {
	workers := make([][]float64, len(a.locks))
	err := all(len(a.locks), func(number int) error {
		lock, times := a.locks[number], []float64{}
		sleepUntil(opens)
		for {
			asked := clock()
			if asked >= closes {
				break
			}
			if err := lock.acquire(); err != nil {
				return err
			}
			got := clock()
			if a.opening.Work > 0 {
				time.Sleep(time.Duration(a.opening.Work * 1e9))
			}
			times = append(times, asked, got, clock())
			lock.release()
		}
		workers[number] = times
		return nil
	})
	return answer{"workers": workers}, err
}

func (a *agent) do(order order) (answer, error) {
	switch order.Do {
	case "open":
		return answer{}, a.open(order)
	case "contend":
		return a.contend(order.Opens, order.Closes)
	case "acquire":
		err := a.locks[0].acquire()
		return answer{"at": clock()}, err
	case "release":
		at := clock()
		a.locks[0].release()
		return answer{"at": at}, nil
	}
	return nil, fmt.Errorf("cannot %s", order.Do)
}

func main() {
	input, output := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	var agent agent
	for input.Scan() {
		var order order
		if err := json.Unmarshal(input.Bytes(), &order); err != nil {
			panic(err)
		}
		if order.Do == "close" {
			return
		}
		answer, err := agent.do(order)
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if err := output.Encode(answer); err != nil {
			panic(err)
		}
	}
}
