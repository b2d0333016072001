// An agent in Go: it does what the lines on standard input say with the locks of rueidislock or
// redsync. The orders are those of benchmarks/agent.py; a worker is a goroutine.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sys/unix"
)

const lease = 30 * time.Second // what the other peers use

// Lock is one worker's.
type Lock interface {
	Acquire() error
	Release() error
}

// Session is what the workers of one process share.
type Session interface {
	Lock(name string) Lock
	Close()
}

type order struct {
	Do, Peer, URL, Name string
	Workers             int
	Work                float64
	Opens, Closes       float64
	Warmup, Seconds     float64
}

type answer map[string]any

type turn [3]float64

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

// rueidislock as its README shows it for one server: one key for each lock. There is no next key to
// try, so TryNextAfter is no reason to give up: after a reply that took longer than its 20 ms, the
// waiter would wait for a message that nobody may send any more. For the same reason loop tracking
// is on, which the README has off: a client's own releases wake its waiters too.
type rueidisSession struct{ locker rueidislock.Locker }

func openRueidis(url string) (Session, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyMajority: 1, KeyValidity: lease, TryNextAfter: lease,
	})
	return rueidisSession{locker}, err
}

func (s rueidisSession) Lock(name string) Lock { return &rueidisLock{s.locker, name, nil} }
func (s rueidisSession) Close()                { s.locker.Close() }

type rueidisLock struct {
	locker rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

// Acquire asks anew after each second. A waiter that misses the one message which would wake it waits
// for ever, and some do.
func (l *rueidisLock) Acquire() (err error) {
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

// Release returns when the key is deleted.
func (l *rueidisLock) Release() error {
	l.cancel()
	return nil
}

type redsyncSession struct {
	client *goredis.Client
	sync   *redsync.Redsync
}

func openRedsync(url string, workers int) (Session, error) {
	option, err := goredis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	option.PoolSize = workers + 1
	client := goredis.NewClient(option)
	return redsyncSession{client, redsync.New(redsyncgoredis.NewPool(client))}, nil
}

func (s redsyncSession) Lock(name string) Lock {
	// It gives up after 32 tries unless told otherwise.
	return redsyncLock{s.sync.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt32))}
}
func (s redsyncSession) Close() { s.client.Close() }

type redsyncLock struct{ mutex *redsync.Mutex }

func (l redsyncLock) Acquire() error { return l.mutex.Lock() }
func (l redsyncLock) Release() error {
	released, err := l.mutex.Unlock()
	if err == nil && !released {
		err = fmt.Errorf("the lock was not held")
	}
	return err
}

func pair(lock Lock) error {
	if err := lock.Acquire(); err != nil {
		return err
	}
	return lock.Release()
}

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

func first(session Session, order order, locks []Lock, name func(number int) string) error {
	return all(order.Workers, func(number int) error {
		locks[number] = session.Lock(name(number))
		return pair(session.Lock(fmt.Sprintf("%s:%d", order.Name, number)))
	})
}

func contend(prepared, order order, locks []Lock) (answer, error) {
	workers := make([][]turn, len(locks))
	err := all(len(locks), func(number int) error {
		turns := []turn{}
		sleepUntil(order.Opens)
		for {
			asked := clock()
			if asked >= order.Closes {
				break
			}
			if err := locks[number].Acquire(); err != nil {
				return err
			}
			got := clock()
			if prepared.Work > 0 {
				time.Sleep(time.Duration(prepared.Work * 1e9))
			}
			turns = append(turns, turn{asked, got, clock()})
			if err := locks[number].Release(); err != nil {
				return err
			}
		}
		workers[number] = turns
		return nil
	})
	return answer{"workers": workers}, err
}

func uncontended(session Session, order order) (answer, error) {
	locks := make([]Lock, order.Workers)
	name := func(number int) string { return fmt.Sprintf("%s:%d", order.Name, number) }
	if err := first(session, order, locks, name); err != nil {
		return nil, err
	}
	opens := clock() + order.Warmup
	closes := opens + order.Seconds
	counted, total := make([]int, order.Workers), make([]int, order.Workers)
	err := all(order.Workers, func(number int) error {
		total[number] = 1
		for {
			if err := pair(locks[number]); err != nil {
				return err
			}
			total[number]++
			now := clock()
			if now >= closes {
				return nil
			}
			if now >= opens {
				counted[number]++
			}
		}
	})
	sum := func(numbers []int) (sum int) {
		for _, number := range numbers {
			sum += number
		}
		return sum
	}
	return answer{"rate": float64(sum(counted)) / order.Seconds, "total": sum(total)}, err
}

type agent struct {
	session  Session
	held     Lock
	locks    []Lock
	prepared order
}

func (a *agent) do(order order) (result answer, err error) {
	switch order.Do {
	case "open":
		if order.Peer == "rueidislock" {
			a.session, err = openRueidis(order.URL)
		} else {
			a.session, err = openRedsync(order.URL, order.Workers)
		}
		return answer{}, err
	case "acquire":
		a.held = a.session.Lock(order.Name)
		err = a.held.Acquire()
		return answer{"at": clock()}, err
	case "release":
		at := clock()
		err = a.held.Release()
		return answer{"at": at}, err
	case "prepare":
		a.prepared, a.locks = order, make([]Lock, order.Workers)
		return answer{}, first(a.session, order, a.locks, func(int) string { return order.Name })
	case "contend":
		return contend(a.prepared, order, a.locks)
	case "uncontended":
		return uncontended(a.session, order)
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
			break
		}
		answer, err := agent.do(order)
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if err := output.Encode(answer); err != nil {
			panic(err)
		}
	}
	if agent.session != nil {
		agent.session.Close()
	}
}
