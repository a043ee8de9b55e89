# K2: consumer groups under chaos.  Six members join, leave, are killed, stopped for longer than their session and half closed,
# while producers write; the door, the positions worker and the server itself are killed.  Each record is processed at
# least once, positions never go back, and no partition has two owners in one generation.  Then groups of
# librdkafka that read the same topic while members come and go.  Case F8.  FLEETLOG_ROUNDS sets the rounds.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(usleep);
use FleetlogTest;
use FleetlogTest::KafkaMember;

my $rounds = $ENV{FLEETLOG_ROUNDS} // 3;
my $partitions = 8;
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_chaos', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.allow_anonymous = on
fleetlog.kafka_rebalance_delay = 0
fleetlog.kafka_session_timeout_min = 100ms
fleetlog.worker_retry = 100ms
CONF
$s->sql(<<SQL);
SELECT fleetlog.create_stream('work', shards => $partitions);
CREATE TABLE moved (at timestamptz DEFAULT clock_timestamp(), shard int, was bigint, became bigint);
CREATE FUNCTION note_move() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO public.moved (shard, was, became) VALUES (NEW.shard, OLD.log_offset, NEW.log_offset);
	RETURN NULL;
END \$\$;
CREATE TRIGGER note_move AFTER UPDATE ON fleetlog.consumer_position FOR EACH ROW EXECUTE FUNCTION note_move();
SQL
sub wait_for_door { $s->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door'); return; }
wait_for_door();

my $dir = PostgreSQL::Test::Utils::tempdir();
my $incarnation = 0;
sub set_incarnation { open my $f, '>', "$dir/incarnation.new" or die $!; print $f $incarnation; close $f; rename "$dir/incarnation.new", "$dir/incarnation" or die $!; return; }
set_incarnation();
my $seed = $ENV{FLEETLOG_SEED} // time;
note "seed $seed";
srand $seed;

# ---- members of our own ----

my (@members, @producers, $named);
sub start { my ($what, $name) = @_; return FleetlogTest::KafkaMember->start(what => $what, name => $name, port => $port, topic => 'work', partitions => $partitions, group => 'g', dir => $dir); }
sub one_of { return splice @members, int rand @members, 1; }
sub worker { my ($where) = @_; return $s->sql("SELECT min(w.pid) FROM fleetlog.stat_worker w LEFT JOIN fleetlog.stat_listener l USING (pid) WHERE $where"); }
my %count;
my %event = (
    join => sub { push @members, start('consume', 'm' . $named++) if @members < 6; },
    leave => sub { one_of()->end('TERM') if @members > 1; },
    kill => sub { one_of()->end('KILL') if @members > 1; },
    half => sub { $members[ rand @members ]->signal('USR1'); },
    stop => sub { my $m = $members[ rand @members ]; $m->signal('STOP'); usleep(1000 * ($FleetlogTest::KafkaMember::SESSION + 300)); $m->signal('CONT'); },
    door => sub { my $pid = worker("l.protocol = 'kafka'"); $s->sql("SELECT pg_terminate_backend($pid)") if $pid; },
    positions => sub { my $pid = worker("w.kind = 'positions'"); $s->sql("SELECT pg_terminate_backend($pid)") if $pid; });
my @weighted = ((qw(join join join kill leave half)) x 2, qw(door positions));

push @members, start('consume', 'm' . $named++) for 1 .. 6;
push @producers, start('produce', "p$_") for 1 .. 2;
for my $round (1 .. $rounds)
{
    # Each kind at least once, then by chance.
    for my $what ((sort { rand() <=> 0.5 } qw(kill leave join half door positions)), ($round == 1 ? 'stop' : ()), map { $weighted[ rand @weighted ] } 1 .. 4)
    {
        $count{$what}++;
        $event{$what}->();
        usleep(30_000 + rand 250_000);
    }
    if ($round == 1 || $round % 5 == 0)
    {
        $s->kill9;
        $incarnation++;
        set_incarnation();
        $s->start_after_crash;
        $count{server}++;
    }
    wait_for_door();
    # However many are left, they come to rest and get on.
    my $seen = $s->sql("SELECT count(*) FROM moved");
    $s->wait_for("SELECT count(*) > $seen FROM moved", 't', "positions to move behind round $round");
}
note join ', ', map { "$count{$_} $_" } sort keys %count;
$_->end('TERM') for @producers;
$s->wait_for("SELECT count(*) = $partitions AND bool_and(log_offset = fleetlog.tail('work', shard)) FROM fleetlog.consumer_position WHERE consumer = 'g'", 't', 'everything to be processed and committed');
$_->end('TERM') for @members;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_group_member WHERE name = 'g'", '0', 'the group to be empty');

# ---- what the journals say ----

my (%owner, @two_owners, %done, @acked, @events);
for my $file (glob "$dir/*.journal")
{
    open my $f, '<', $file or die "$file: $!";
    my $asked;
    while (<$f>)
    {
        # A process that was killed may have written half a line.
        next unless /\n\z/;
        my ($at, $what, @rest) = split;
        if ($what eq 'own')
        {
            my ($life, $generation, $member, @own) = @rest;
            for my $p (@own)
            {
                my $key = "$life/$generation/$p";
                push @two_owners, "$key: $owner{$key} and $member" if ($owner{$key} //= $member) ne $member;
            }
        }
        elsif ($what eq 'done') { $done{"$rest[0]:$rest[1]"} = $rest[2]; }
        elsif ($what eq 'acked') { push @acked, $rest[0]; }
        elsif ($what eq 'ask') { $asked = $at; }
        elsif ($what eq 'start') { push @events, [ $asked, 'start', @rest ]; }
        elsif ($what eq 'commit') { push @events, [ $at, 'commit', @rest ]; }
    }
    close $f;
}
cmp_ok(scalar keys %owner, '>', $partitions * $rounds, 'generations have changed: ' . keys(%owner) / $partitions);
is(join("\n", @two_owners), '', 'no partition has two owners in one generation');

# Whoever asked after a commit was answered is told no less.
my (%committed, @back);
for my $e (sort { $a->[0] <=> $b->[0] || $a->[1] cmp $b->[1] } @events)
{
    my ($at, $what, $p, $offset) = @$e;
    push @back, "partition $p at $at: $offset, and $committed{$p} was committed" if $offset < ($committed{$p} // -1);
    $committed{$p} = $offset if $what eq 'commit' && $offset > ($committed{$p} // -1);
}
is(join("\n", grep { defined } @back[ 0 .. ($#back < 9 ? $#back : 9) ]), '', 'what is committed is told to whoever asks behind it, and nothing below it is committed');
is($s->sql("SELECT count(*) FROM moved WHERE became < was"), '0', 'positions never go back, by each change of a row');
cmp_ok($s->sql("SELECT count(*) FROM moved"), '>', 10 * $rounds, 'which were looked at');
my @missing;
my %stored = map { split / /, $_, 2 } split /\n/, $s->sql("SELECT shard || ':' || log_offset || ' ' || fleetlog.text(payload) FROM work");
for my $place (sort keys %stored) { push @missing, $place if ($done{$place} // '') ne $stored{$place}; }
is(scalar(@missing), 0, scalar(keys %stored) . ' records: each was processed at least once') or diag "@missing[0 .. ($#missing < 9 ? $#missing : 9)]";
my %values = map { $_ => 1 } values %stored;
is(scalar(grep { !$values{$_} } @acked), 0, scalar(@acked) . ' that were acknowledged are among them');

# ---- three groups of librdkafka that rebalance together (F8) ----

my $python = <<'PY';
import signal, sys
from confluent_kafka import Consumer, KafkaException
port, group, assignor, path = sys.argv[1:]
run = True
def end(*_):
    global run
    run = False
signal.signal(signal.SIGTERM, end)
out = open(path, 'a', buffering=1)
c = Consumer({'bootstrap.servers': '127.0.0.1:' + port, 'group.id': group, 'auto.offset.reset': 'earliest', 'enable.auto.commit': False,
              'partition.assignment.strategy': assignor, 'session.timeout.ms': 6000, 'heartbeat.interval.ms': 300})
c.subscribe(['work'])
while run:
    m = c.poll(0.2)
    if m is None:
        continue
    if m.error():
        print(m.error().name(), file=out)
        continue
    print('%d:%d' % (m.partition(), m.offset()), file=out)
    try:
        c.commit(m, asynchronous=m.offset() % 20 != 0)
    except KafkaException as e:
        print(e.args[0].name(), file=out)
c.close()
PY

SKIP:
{
    skip 'confluent-kafka is not here', 6 if system('/usr/bin/python3 -c "import confluent_kafka" 2>/dev/null') != 0;
    my (%run, %gone, $n);
    my %assignor = (range => 'range', sticky => 'cooperative-sticky', round => 'roundrobin');
    my $consumer = sub {
        my ($group) = @_;
        my $out = "$dir/$group-" . ++$n;
        return { out => $out, run => IPC::Run::start([ '/usr/bin/python3', '-c', $python, $port, $group, $assignor{$group}, $out ], '<', \'', '>', '/dev/null', '2>', "$out.err") };
    };
    @producers = start('produce', 'p3');
    for my $round (1 .. $rounds)
    {
        for my $group (sort keys %assignor)
        {
            # One goes, and one comes, so that one is there all the time.
            if (my $old = shift @{ $run{$group} }) { $old->{run}->signal($round % 2 ? 'KILL' : 'TERM'); push @{ $gone{$group} }, $old; }
            push @{ $run{$group} }, $consumer->($group) for 1 .. ($round == 1 ? 2 : 1);
        }
        usleep(1_000_000);
    }
    $_->end('TERM') for @producers;
    for my $group (sort keys %assignor)
    {
        $s->wait_for("SELECT count(*) = $partitions AND bool_and(log_offset = fleetlog.tail('work', shard)) FROM fleetlog.consumer_position WHERE consumer = '$group'", 't', "group $group to have everything");
        my (%got, %told);
        $_->{run}->signal('TERM') for @{ $run{$group} };
        for my $one (@{ $run{$group} }, @{ $gone{$group} // [] })
        {
            eval { $one->{run}->finish };
            my $said = -e $one->{out} ? PostgreSQL::Test::Utils::slurp_file($one->{out}) : '';
            $got{$_} = 1 for $said =~ /^(\d+:\d+)\n/mg;
            $told{$_}++ for $said =~ /^([A-Z_]+)$/mg;
        }
        note "$group: ", join ', ', map { "$told{$_} $_" } sort keys %told;
        is(scalar(keys %got), $s->sql('SELECT count(*) FROM work'), "F8: group $group ($assignor{$group}) has every record");
        is(join(' ', grep { !/^(?:ILLEGAL_GENERATION|REBALANCE_IN_PROGRESS)$/ } sort keys %told), '', 'F8: none of its members was told that it is unknown');
    }
}

is($s->crashes, '', 'nothing has crashed but by us');
done_testing();
