# FleetlogTest::Nemesis: rounds of misfortune for a server under load, decided by a seed and checked by FleetlogTest::Truth.
#
# A round: devices and SQL writers work, a few disturbances come, then usually a blow; the server comes back, and everything that
# anybody was told must be true.  Seed and number of a round decide what comes and how long is waited;
# FLEETLOG_SEED and FLEETLOG_FIRST_ROUND repeat a round as far as the machine's timing allows.
package FleetlogTest::Nemesis;

use strict;
use warnings;
use Carp qw(confess);
use POSIX ();
use Time::HiRes qw(time usleep);
use FleetlogTest;
use FleetlogTest::Powercut;
use FleetlogTest::Truth;

# Small WAL segments and caches, so that recycling, eviction and checkpoints fall into a round; a lazy WAL writer, so
# that only a commit's own flush makes it durable.
my $CONF = <<'CONF';
fsync = on
wal_writer_delay = 10s
wal_writer_flush_after = 1GB
max_wal_size = 24MB
min_wal_size = 8MB
wal_keep_size = 128MB
shared_buffers = 8MB
checkpoint_timeout = 30s
restart_after_crash = on
wal_consistency_checking = 'fleetlog'
hot_standby_feedback = off
fleetlog.shard_hold_timeout = 5s
fleetlog.shard_lock_timeout = 6s
CONF

# Options: seed, conf (more settings), standby => 0 for none, power => 0 for no power-cut layer, shards.
sub new
{
    my ($class, %opt) = @_;
    my $self = bless { seed => $opt{seed}, shards => $opt{shards} // 2 }, $class;
    my $s = FleetlogTest->new('chaos', no_start => 1, initdb => ['--wal-segsize=1'], conf => $CONF . ($opt{conf} // ''));

    $self->{server} = $s;
    $s->start_and_install;
    $s->fleet(shards => $self->{shards}, devices => 4);
    $s->sql('CREATE TABLE both_written (word text)');
    $s->sql(<<'SQL') if $opt{state} // 1;
SELECT fleetlog.create_state('now'), fleetlog.create_state('latest');
SELECT fleetlog.alter_mount('acme/', state => 'now');
SELECT fleetlog.mount('acme/d3/', 'telemetry', state => 'latest', keep => 'last', state_lag => '200 ms');
SQL
    if ($opt{standby} // 1)
    {
        $self->{standby} = $s->new_standby('chaos_standby', conf => "fsync = off\nmax_standby_streaming_delay = 1s\n");
        $self->{standby}->node->start;
    }
    if ($opt{power} // 1)
    {
        $s->node->stop;
        $self->{power} = FleetlogTest::Powercut->new($s);
        $self->{power}->start;
    }
    $self->{truth} = FleetlogTest::Truth->new($s, devices => 4, retain => 1);
    return $self;
}

# A stream of numbers of this round's own, apart from Perl's.
sub chance
{
    my ($self, $n) = @_;
    $self->{x} = ($self->{x} * 6364136223 + 1442695041) % 2147483647;
    return int($self->{x} / 7) % $n;
}

sub pick
{
    my ($self, @of) = @_;
    return $of[ $self->chance(scalar @of) ];
}

sub say_step
{
    my ($self, $what) = @_;
    push @{ $self->{story} }, $what;
    return;
}

# Names of the stop points that the source has.
sub stop_points
{
    my $source = $ENV{FLEETLOG_SOURCE} // '.';
    my %have;
    for my $file (glob "$source/src/*/*.c $source/bgworker/*/*.c")
    {
        my $text = PostgreSQL::Test::Utils::slurp_file($file);
        $have{$1} = 1 while $text =~ /FL_STOP_POINT\("(\w+)"\)/g;
    }
    delete @have{qw(keeper_turn append_between_parts)};
    return sort keys %have;
}

# The layer accounts for every fsync and asks the real disk for none; how long they seem to take changes.
sub set_disk
{
    my ($self) = @_;
    my $us = $self->pick(0, 200, 2000);

    return unless $self->{power};
    $self->{power}->set(skip_fsync => 1, fsync_delay_us => $us);
    $self->say_step("fsync takes $us us");
    return;
}

sub pid_of
{
    my ($self, $kind) = @_;
    my $pid = $self->{server}->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = '$kind' AND pid IS NOT NULL ORDER BY index LIMIT 1");
    return $pid || undef;
}

# ---- disturbances: each is undone by mend() -----------------------------------------------------------------

sub session
{
    my ($self) = @_;
    my $session = $self->{server}->session;
    push @{ $self->{sessions} }, $session;
    return $session;
}

sub hold_snapshot
{
    my ($self) = @_;
    $self->session->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM telemetry');
    return;
}

sub hold_transaction
{
    my ($self) = @_;
    $self->session->query("BEGIN; SELECT txid_current(); LOCK TABLE both_written IN ACCESS SHARE MODE");
    return;
}

# A shard is held for a moment by an open append(), then given back one way or the other.
sub hold_shard
{
    my ($self) = @_;
    my $session = $self->session;
    my $word = "$self->{truth}{run}/" . ($self->{kept} = $self->chance(2) ? 'append' : 'gone') . '/held-' . ++$self->{held};

    $session->query("BEGIN; SELECT fleetlog.append('telemetry', 'held', '$word')");
    $self->{truth}->pump(0.1 + $self->chance(4) / 10);
    my $end = $self->{kept} eq 'append' ? 'COMMIT' : 'ROLLBACK';
    my $said = $session->query("$end;\n\\if :ERROR\n\\else\n\\echo done\n\\endif");
    $self->{truth}{acked}{$word} = 1 if $said =~ /done/ && $session->error eq '' && $end eq 'COMMIT';
    return;
}

# Rows of state tables are locked for a moment: their values wait.
sub hold_rows
{
    my ($self) = @_;
    my $session = $self->session;

    $session->query("BEGIN; SELECT count(*) FROM (SELECT 1 FROM now FOR UPDATE) l; SELECT count(*) FROM (SELECT 1 FROM latest FOR UPDATE) l");
    $self->{truth}->pump(0.1 + $self->chance(5) / 10);
    $session->query($self->chance(2) ? 'COMMIT' : 'ROLLBACK');
    return;
}

# Half of the time the operator mends what is not broken.
sub rebuild_state
{
    my ($self) = @_;
    my $which = $self->pick('now', 'latest');
    $self->{server}->try_sql("SELECT fleetlog.rebuild_state('$which')");
    return $which;
}

sub step_clock
{
    my ($self) = @_;
    my $ms = $self->pick(-3_600_000, -60_000, -1000, 1000, 60_000, 3_600_000);
    $self->settings('fleetlog.clock_offset' => $ms);
    return "by $ms ms";
}

# Settings are kept over rounds until they are changed again.
sub settings
{
    my ($self, %what) = @_;
    $self->{server}->set_conf(%{ $self->{server}{conf} // {} }, %what);
    return;
}

sub more_shards
{
    my ($self) = @_;
    return 'enough' if $self->{shards} >= 5;
    my $n = $self->{shards} + 1;
    my ($rc) = $self->{server}->try_sql("SELECT fleetlog.alter_stream('telemetry', shards => $n)");
    $self->{shards} = $n if $rc == 0;
    return "to $n" . ($rc == 0 ? '' : ', refused');
}

sub vacuum { $_[0]{server}->try_sql('VACUUM (FREEZE) telemetry'); return; }
sub checkpoint { $_[0]{server}->try_sql('CHECKPOINT'); return; }
sub switch_wal { $_[0]{server}->try_sql('SELECT pg_switch_wal()'); return; }

sub reload
{
    my ($self) = @_;
    my $xids = $self->pick(0, 20, 1000);
    $self->settings('fleetlog.max_xids_per_second' => $xids);
    return "max_xids_per_second $xids";
}

# A front door writes by itself, or leaves it to the appender, where there is a choice.
sub change_path
{
    my ($self) = @_;
    return 'there is one path' unless $self->{server}->sql("SELECT count(*) FROM pg_settings WHERE name = 'fleetlog.door_writes'");
    my $value = $self->pick('on', 'off');
    $self->settings('fleetlog.door_writes' => $value);
    return $value;
}

sub end_worker
{
    my ($self) = @_;
    my $kind = $self->pick(qw(front_door appender flusher confirmer keeper auth launcher));
    my $pid = $self->pid_of($kind) // return "$kind: not there";
    kill 'TERM', $pid;
    return $kind;
}

sub end_writers
{
    my ($self) = @_;
    $self->{server}->try_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%fleetlog.append%' AND pid <> pg_backend_pid()");
    return;
}

sub trouble_standby
{
    my ($self) = @_;
    my $standby = $self->{standby} // return 'there is none';
    my $what = $self->pick('kill', 'stop', 'lag', 'freeze');

    return 'it is down' unless defined $standby->node->{_pid};
    if ($what eq 'kill') { $standby->kill9; $self->{standby_down} = 1; }
    elsif ($what eq 'stop') { $standby->node->stop('immediate'); $self->{standby_down} = 1; }
    elsif ($what eq 'lag') { $standby->try_sql('SELECT pg_wal_replay_pause()', 'postgres'); }
    else
    {
        my $pid = $standby->sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'");
        if ($pid) { kill 'STOP', $pid; $self->{frozen} = $pid; }
    }
    return $what;
}

# The data volume is full for a moment: no record may be acknowledged that is not there, all goes on by itself.
sub fill_data
{
    my ($self) = @_;
    my $power = $self->{power} // return 'no small disk';

    $power->set(free_data => 0);
    $self->{truth}->pump(0.8);
    $power->set(free_data => -1);
    # A checkpoint that falls into this moment is a PANIC of PostgreSQL's own; it comes back by itself.
    FleetlogTest::wait_until(sub { $self->life ne '' }, 'the server to answer');
    return;
}

sub stand_at_stop_point
{
    my ($self) = @_;
    my $point = $self->pick($self->stop_points);

    $self->settings('fleetlog.stop_points' => $point);
    $self->{truth}->pump(0.4);
    $self->{stopped} = 1;
    return $point;
}

# Twice as often those that concern most.
my @DISTURB = qw(hold_snapshot hold_transaction hold_shard hold_shard hold_rows hold_rows rebuild_state step_clock step_clock more_shards vacuum checkpoint switch_wal
    reload change_path change_path end_worker end_worker end_writers trouble_standby fill_data stand_at_stop_point);

# ---- blows ---------------------------------------------------------------------------------------------------

# Does something in another process after so many seconds, while devices go on here until they are cut off.
sub meanwhile
{
    my ($self, $after, $what) = @_;
    my $pid = fork // confess("fork: $!");

    if (!$pid)
    {
        usleep($after * 1e6);
        my $ok = eval { $what->(); 1 };
        print STDERR $@ unless $ok;
        POSIX::_exit($ok ? 0 : 1);
    }
    $self->{truth}->pump($after + 10, sub { $self->{truth}->all_closed });
    waitpid $pid, 0;
    return $? == 0;
}

sub kill_postmaster
{
    my ($self, $after) = @_;
    my $pid = $self->{server}->node->{_pid};

    $self->meanwhile($after, sub { kill 'KILL', $pid or die "kill $pid: $!" }) or confess('the blow failed');
    $self->{server}->wait_until_gone($pid);
    $self->{server}->node->{_pid} = undef;
    return;
}

sub kill_worker
{
    my ($self, $after, $kind) = @_;
    my $pid = $self->pid_of($kind);

    return $self->kill_postmaster($after) unless $pid;
    my $old = $self->life;
    my ($gone, $life) = (0, '');
    my $struck = $self->meanwhile($after, sub { kill 'KILL', $pid or die "kill $pid: $!" });
    # One that had been told to end before may have done so just then: its server goes on, and is struck as a whole.
    FleetlogTest::wait_until(
        sub {
            $gone = !kill 0, $pid;
            $life = $self->life;
            return $life ne '' && ($life ne $old || $gone);
        },
        'the server to restart by itself') if $struck;
    return $self->kill_postmaster(0) if !$struck || $life eq $old;
    return;
}

# Tells one life of the server from the next; empty while there is none.
sub life
{
    my ($self) = @_;
    my ($rc, $out) = $self->{server}->try_sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    return $rc == 0 ? $out : '';
}

sub cut_power
{
    my ($self, $after, $mode) = @_;
    my $power = $self->{power};
    my $seed = $self->chance(1_000_000);
    my $told = "$power->{side}.told";

    # What was reverted comes back through a file, since another process does it.
    $self->meanwhile($after, sub {
        my %cut = %{ $power->cut(mode => $mode, seed => $seed) };
        open my $f, '>', $told or die "$told: $!";
        print $f join ' ', map { "$_=$cut{$_}" } sort keys %cut;
        close $f;
    }) or confess('the blow failed');
    $self->{server}->node->{_pid} = undef;
    $self->say_step('lost: ' . PostgreSQL::Test::Utils::slurp_file($told));
    return;
}

sub restart
{
    my ($self, $after, $how) = @_;
    $self->{truth}->pump($after);
    $self->{server}->node->stop($how);
    return;
}

# ---- a round ---------------------------------------------------------------------------------------------------

# Everything as it was, as far as it was the nemesis who changed it.
sub mend
{
    my ($self) = @_;
    my $s = $self->{server};
    my %conf = %{ $s->{conf} // {} };

    if (delete $self->{frozen}) { }
    delete $conf{'fleetlog.stop_points'};
    delete $self->{stopped};
    $s->set_conf(%conf);
    $_->{run}->kill_kill(grace => 0.1) for @{ $self->{sessions} };
    $self->{sessions} = [];
    return;
}

sub mend_standby
{
    my ($self) = @_;
    my $standby = $self->{standby} // return;

    if (delete $self->{standby_down}) { $standby->start_after_crash(no_wait => 1); }
    $standby->try_sql('SELECT pg_wal_replay_resume()', 'postgres');
    return;
}

# Plays round n and returns what was wrong, as lines; {story} tells what happened.
sub round
{
    my ($self, $n, %opt) = @_;
    my ($s, $truth) = @$self{qw(server truth)};
    my $before = $truth->acked;
    my @faults;

    $self->{x} = ($self->{seed} * 1009 + $n * 9176 + 17) % 2147483647;
    $self->chance(2) for 1 .. 5;
    $self->{story} = ["seed $self->{seed} round $n"];
    $self->set_disk;
    $truth->connect_all("r$n");
    $truth->start_sql($self->{shards});
    $truth->pump(0.3 + $self->chance(8) / 10);
    # Before anything befalls them there has to be something to lose, on whatever machine.
    $truth->pump($FleetlogTest::TIMEOUT, sub { $truth->acked >= $before + 100 && $truth->said_sql >= 100 });
    for (1 .. 1 + $self->chance(3))
    {
        my $what = $self->pick(@{ $opt{disturb} // \@DISTURB });
        my $how = $self->can($what)->($self);
        $self->say_step($what . (defined $how ? " ($how)" : ''));
        $truth->pump($self->chance(5) / 10) unless $self->{stopped};
    }
    $self->blow($opt{blow});
    if (my $pid = $self->{frozen}) { kill 'CONT', $pid; }
    $truth->cut_off;
    $truth->finish_sql;
    $self->mend;
    $self->come_back;
    push @faults, $truth->check;
    $self->mend_standby;
    push @faults, $truth->check_standby($self->{standby}, pages => $opt{pages}) if $self->{standby};
    push @faults, map { unasked_crashes($_) } grep { $_ } $s, $self->{standby};
    $self->say_step('acknowledged ' . ($truth->acked - $before));
    return @faults;
}

# Lines of a log about crashes that were not ours: not those of kill -9 and of a full disk.
sub unasked_crashes
{
    my ($server) = @_;
    my @lines = grep { !/terminated by signal 9\b/ } split /\n/, $server->crashes;
    my $full = grep { /PANIC:.*No space left/ } @lines;
    return grep { !/PANIC:.*No space left/ && !($full && /checkpointer process.*signal 6/) } @lines;
}

my @BLOWS = (
    [ 'none' ], [ 'restart', 'fast' ], [ 'restart', 'immediate' ], [ 'kill_postmaster' ], [ 'kill_postmaster' ],
    (map { [ 'kill_worker', $_ ] } qw(front_door appender flusher keeper auth launcher)),
    [ 'cut_power', 'all' ], [ 'cut_power', 'all' ], [ 'cut_power', 'all' ], ([ 'cut_power', 'some' ]) x 5);

sub blow
{
    my ($self, $wanted) = @_;
    my ($name, $arg) = @{ $wanted // $self->pick(grep { $self->{power} || $_->[0] ne 'cut_power' } @BLOWS) };
    my $after = $self->{stopped} ? 0.05 : $self->chance(900) / 1000;

    $self->say_step(join ' ', $name, $arg // (), "after $after s");
    if ($name eq 'none')
    {
        # Where nothing broke, nothing may stay unanswered.
        $self->mend;
        my $left = $self->{truth}->drain;
        push @{ $self->{truth}{faults} }, "$left messages were not answered" if $left > 0 && !$self->{truth}->all_closed;
        return;
    }
    $self->can($name)->($self, $after, $arg);
    return;
}

# Starts the server unless it runs, and waits until it serves.
sub come_back
{
    my ($self) = @_;
    my $s = $self->{server};

    if (!defined $s->node->{_pid})
    {
        $self->{power} ? $self->{power}->start : $s->start_after_crash;
    }
    FleetlogTest::wait_until(sub { $self->life ne '' }, 'the server to answer');
    $s->wait_for_mqtt;
    return;
}

# After the rounds: everything is in place once more, pages of the standby included.
sub finish
{
    my ($self) = @_;
    my @faults;

    push @faults, $self->{truth}->check_waiting;
    push @faults, $self->{truth}->check_standby($self->{standby}, pages => 1) if $self->{standby};
    $self->{standby}->node->stop if $self->{standby};
    $self->{server}->node->stop;
    return @faults;
}

1;
