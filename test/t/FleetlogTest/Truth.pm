# FleetlogTest::Truth: what clients of a server were told, kept outside of it, and the checker that holds the server to it.
#
# Devices publish at QoS 1 and send again what was not acknowledged when they come back, as MQTT has it.  SQL writers
# append, publish, append ten at a time, roll back, and write one record to the stream and to a heap table in one
# transaction.  An observer asks for tails.  Everything that was answered is remembered here; check() compares it with what
# the server has and returns the differences as lines of text, none when all is well.
#
# A payload is a word that says who sent it: "RUN/DEVICE/CONNECTION/NUMBER" of a device, "RUN/KIND/NUMBER" of SQL, and
# then a dot and anything, to make it longer and hard to compress.
package FleetlogTest::Truth;

use strict;
use warnings;
use Carp qw(confess);
use IO::Select;
use Time::HiRes qw(time usleep);
use PostgreSQL::Test::Utils;
use FleetlogTest::Mqtt;

my $NOISE = join '', map { chr(97 + int(rand(26))) } 1 .. 40_000;
my $SAY = 5;                    # of each kind of difference, so many examples

# Options: devices, window (unacknowledged PUBLISH a device), pad (most dots), retain (a third of the topics; the mount needs a state table).
sub new
{
    my ($class, $server, %opt) = @_;
    return bless {
        server => $server, devices => $opt{devices} // 4, window => $opt{window} // 12, pad => $opt{pad} // 300, retain => $opt{retain} // 0,
        sent => {}, acked => {}, refused => {}, delivered => {}, told => {}, tails => {}, sql => [], n_sql => 0,
        n_acked => 0, device => [ map { { id => "d$_", connection => 0, n => 0, again => [] } } 1 .. $opt{devices} // 4 ] }, $class;
}

sub acked { return $_[0]{n_acked} }

# ---- devices ------------------------------------------------------------------------------------

sub connect_all
{
    my ($self, $run) = @_;

    $self->{run} = $run;
    for my $d (@{ $self->{device} })
    {
        $d->{mqtt} = $self->{server}->device($d->{id}, client_id => "chaos-$d->{id}", keep_alive => 60, version => $d->{id} eq 'd2' ? 4 : 5);
        $d->{connection}++;
        $d->{open} = {};
    }
    $self->{listener} = $self->{server}->device('d1', client_id => 'chaos-listener');
    $self->{listener}->subscribe([ [ 'acme/d1/#', 1 ] ]);
    return;
}

sub send_one
{
    my ($self, $d, $message, $again) = @_;
    my $pid = $d->{mqtt}->publish($message->{topic}, $message->{word} . $message->{pad}, qos => 1, dup => $again ? 1 : 0,
        retain => $self->{retain} && $message->{topic} =~ /t0$/ ? 1 : 0);

    $d->{open}{$pid} = $message;
    $self->{sent}{ $message->{word} }++;
    return;
}

sub step
{
    my ($self, $d) = @_;

    while (keys %{ $d->{open} } < $self->{window} && !$d->{mqtt}{closed})
    {
        if (my $message = shift @{ $d->{again} }) { $self->send_one($d, $message, 1); next; }
        my $n = ++$d->{n};
        my $long = $n % 97 == 0 ? 20_000 : int(($n * 7919) % ($self->{pad} + 1));
        $self->send_one($d, {
            topic => "acme/$d->{id}/t" . $n % 3, word => "$self->{run}/$d->{id}/$d->{connection}/$n", pad => '.' . substr($NOISE, $n * 13 % 20_000, $long) });
    }
    return;
}

sub read_device
{
    my ($self, $d) = @_;

    $d->{mqtt}->fill;
    while (my ($first, $body) = $d->{mqtt}->cut)
    {
        my $p = $d->{mqtt}->decode($first, $body);
        next unless $p->{name} eq 'PUBACK';
        my $message = delete $d->{open}{ $p->{pid} };
        confess("PUBACK for $p->{pid}, which is not open") unless $message;
        if ($p->{reason} < 0x80) { $self->{acked}{ $message->{word} } = 1; $self->{n_acked}++; }
        else { $self->{refused}{ $message->{word} }++; $self->{reasons}{ $p->{reason} }++; push @{ $d->{again} }, $message if $self->{insist}; }
    }
    return;
}

sub read_listener
{
    my ($self) = @_;
    my $l = $self->{listener};

    $l->fill;
    while (my ($first, $body) = $l->cut)
    {
        my $p = $l->decode($first, $body);
        next unless $p->{name} eq 'PUBLISH';
        $p->{payload} =~ s/\..*//s;
        $self->{delivered}{ $p->{payload} } = 1;
        $l->puback($p->{pid}) if $p->{qos};
    }
    return;
}

# Lets devices work for so many seconds, or until the condition is true, or until all connections are closed.
sub pump
{
    my ($self, $seconds, $until) = @_;
    my $end = time + $seconds;

    while (time < $end && !($until && $until->()))
    {
        my $select = IO::Select->new;
        my %by_fd;
        for my $d (grep { $_->{mqtt} && !$_->{mqtt}{closed} } @{ $self->{device} })
        {
            $self->step($d);
            next if $d->{mqtt}{closed};
            $select->add($d->{mqtt}{socket});
            $by_fd{ fileno $d->{mqtt}{socket} } = $d;
        }
        last unless $select->count;
        $select->add($self->{listener}{socket}) if $self->{listener} && !$self->{listener}{closed};
        for my $fh ($select->can_read(0.05))
        {
            my $d = $by_fd{ fileno $fh };
            $d ? $self->read_device($d) : $self->read_listener;
        }
    }
    return;
}

sub all_closed
{
    my ($self) = @_;
    return !grep { $_->{mqtt} && !$_->{mqtt}{closed} } @{ $self->{device} };
}

# Takes what lies in the sockets and forgets the connections; what is not acknowledged now will be sent again.
sub cut_off
{
    my ($self) = @_;

    for my $d (@{ $self->{device} })
    {
        next unless $d->{mqtt};
        my $end = time + 5;
        until ($d->{mqtt}{closed} || time > $end)
        {
            last unless IO::Select->new($d->{mqtt}{socket})->can_read(0.1);
            $self->read_device($d);
        }
        $d->{mqtt}->close;
        unshift @{ $d->{again} }, map { $d->{open}{$_} } sort { $a <=> $b } keys %{ $d->{open} };
        $d->{open} = {};
        delete $d->{mqtt};
    }
    if (my $l = $self->{listener})
    {
        $self->read_listener while !$l->{closed} && IO::Select->new($l->{socket})->can_read(0.1);
        $l->close;
        delete $self->{listener};
    }
    return;
}

# Sends nothing new and waits until all is answered; the number of messages that are not.
sub drain
{
    my ($self, $seconds) = @_;
    my $window = $self->{window};
    my $end = time + ($seconds // $FleetlogTest::TIMEOUT);

    $self->{window} = 0;
    $self->pump(0.1) while time < $end && !$self->all_closed && $self->unanswered;
    $self->{window} = $window;
    return $self->unanswered;
}

# Messages on open connections; a device whose connection was closed sends its own again.
sub unanswered
{
    my ($self) = @_;
    my $n = 0;
    $n += keys %{ $_->{open} } for grep { $_->{mqtt} && !$_->{mqtt}{closed} } @{ $self->{device} };
    return $n;
}

# ---- SQL ---------------------------------------------------------------------------------------------

# One psql that works through a file of statements and says after each what it was told.
sub start_psql
{
    my ($self, $kind, $text) = @_;
    my $dir = PostgreSQL::Test::Utils::tempdir();

    open my $f, '>', "$dir/in.sql" or confess("$dir: $!");
    print $f $text;
    close $f;
    push @{ $self->{sql} }, {
        kind => $kind, dir => $dir,
        run => IPC::Run::start([ 'stdbuf', '-oL', 'psql', '-XAtq', '-d', $self->{server}->node->connstr('fleetlog'), '-f', "$dir/in.sql" ],
            '>', "$dir/out", '2>', "$dir/err", IPC::Run::timeout($FleetlogTest::TIMEOUT)) };
    return;
}

my $SAID = "\\if :ERROR\n\\else\n\\echo %s\n\\endif\n";

# Two writers and an observer; names of payloads begin with this round's run.
sub start_sql
{
    my ($self, $shards) = @_;
    my $run = $self->{run};
    my ($append, $mixed, $observe) = ('', '', '');

    for my $n (1 .. 1500)
    {
        my $word = "$run/append/$n";
        my $pad = '.' . substr $NOISE, $n * 17 % 20_000, $n * 131 % 700;
        $append .= "SELECT shard AS s, log_offset AS o FROM fleetlog.append('telemetry', 'k" . $n % 7 . "', '$word$pad') \\gset\n"
          . sprintf($SAID, "told $word :s :o");
        $append .= "SELECT pg_sleep(0.003)\\g /dev/null\n" unless $n % 4;
    }
    for my $n (1 .. 500)
    {
        my ($ten, $gone, $both, $out) = map { "$run/$_/$n" } qw(ten gone both publish);
        $mixed .= "SELECT count(fleetlog.append('telemetry', 'ten' || i, '$ten')) FROM generate_series(1, 10) i\\g /dev/null\n" . sprintf($SAID, "acked $ten");
        $mixed .= "BEGIN;\nSELECT fleetlog.append('telemetry', 'gone', '$gone')\\g /dev/null\nROLLBACK;\n" unless $n % 3;
        $mixed .= "BEGIN;\nSAVEPOINT a;\nSELECT fleetlog.append('telemetry', 'gone', '$gone')\\g /dev/null\nROLLBACK TO a;\nSELECT fleetlog.append('telemetry', 'both', '$both')\\g /dev/null\nINSERT INTO both_written VALUES ('$both');\nCOMMIT;\n";
        $mixed .= "SELECT fleetlog.publish('acme/d1/sql', '$out')\\g /dev/null\n" . sprintf($SAID, "acked $out");
        $mixed .= "SELECT fleetlog.publish('acme/d" . (1 + $n % 4) . "/t0', '', retain => true)\\g /dev/null\n" if $self->{retain} && $n % 5;
        $mixed .= "SELECT pg_sleep(0.004)\\g /dev/null\n";
    }
    for my $n (1 .. 400)
    {
        $observe .= "SELECT 'tail ' || s || ' ' || t || ' ' || coalesce((SELECT split_part(fleetlog.text(payload), '.', 1) FROM fleetlog.read('telemetry', s, t - 1, 1)), '-') FROM (SELECT s, fleetlog.tail('telemetry', s) t FROM generate_series(0, $shards - 1) s) x WHERE t > 0;\n"
          . "SELECT pg_sleep(0.02)\\g /dev/null\n";
    }
    $self->start_psql('append', $append);
    $self->start_psql('mixed', $mixed);
    $self->start_psql('observe', $observe);
    return;
}

# Lines that they have said so far.
sub said_sql
{
    my ($self) = @_;
    my $n = 0;
    for my $p (@{ $self->{sql} })
    {
        open my $f, '<', "$p->{dir}/out" or next;
        while (<$f>) { $n++ if /^(?:told|acked) .*\n/ }
        close $f;
    }
    return $n;
}

# Ends the SQL clients (they may have lost their server) and takes in what they were told.
sub finish_sql
{
    my ($self) = @_;

    for my $p (@{ $self->{sql} })
    {
        eval { $p->{run}->kill_kill(grace => 0.2); };
        # A line that was cut off was not told.
        for my $line (PostgreSQL::Test::Utils::slurp_file("$p->{dir}/out") =~ /^(.*)\n/mg)
        {
            if ($line =~ /^told (\S+) (\d+) (\d+)$/) { $self->{told}{$1} = "$2/$3"; $self->{acked}{$1} = 1; $self->{n_sql}++; }
            elsif ($line =~ /^acked (\S+)$/) { $self->{acked}{$1} = 1; $self->{n_sql}++; }
            elsif ($line =~ /^tail (\d+) (\d+) (\S+)$/)
            {
                my ($shard, $tail, $last) = ($1, $2, $3);
                $self->{tails}{$shard} = [ $tail, $last ] if $tail >= ($self->{tails}{$shard} ? $self->{tails}{$shard}[0] : 0);
                push @{ $self->{faults} }, "shard $shard: the tail went back from $p->{seen}{$shard} to $tail while the server ran" if ($p->{seen}{$shard} // 0) > $tail;
                $p->{seen}{$shard} = $tail;
            }
        }
        my $err = PostgreSQL::Test::Utils::slurp_file("$p->{dir}/err");
        push @{ $self->{errors} }, map { "$p->{kind}: $_" } grep { /(ERROR|PANIC):/ } split /\n/, $err;
    }
    $self->{sql} = [];
    return;
}

# ---- the checker ----------------------------------------------------------------------------------------

# All rows in order, as [shard, offset, microseconds, device, key, word].
sub rows
{
    my ($self, $server) = @_;
    my $out = $server->sql(<<'SQL');
COPY (SELECT shard, log_offset, (extract(epoch FROM ts) * 1000000)::bigint, coalesce(device, ''), coalesce(key, ''), split_part(coalesce(fleetlog.text(payload), ''), '.', 1)
  FROM telemetry ORDER BY shard, log_offset) TO STDOUT
SQL
    return map { [ split /\t/, $_, -1 ] } split /\n/, $out;
}

sub note_faults
{
    my ($faults, $what, @which) = @_;

    return unless @which;
    my $more = @which > $SAY ? ' ...' : '';
    push @$faults, scalar(@which) . " $what: " . join(' ', @which[ 0 .. ($#which < $SAY ? $#which : $SAY - 1) ]) . $more;
    return;
}

# Differences between what was told and what this server has (by default the server itself; a standby is another).
sub check
{
    my ($self, $server) = @_;
    $server //= $self->{server};
    my @faults = splice @{ $self->{faults} // [] };
    my (%count, %at, %next, %ts, %order, %seen);
    my (@holes, @back, @disorder, @foreign);

    for my $r ($self->rows($server))
    {
        my ($shard, $offset, $ts, $device, $key, $word) = @$r;
        my $want = $next{$shard} // 0;
        push @holes, "$shard/$want(next is $offset)" if $offset != $want;
        $next{$shard} = $offset + 1;
        push @back, "$shard/$offset" if $ts < ($ts{$shard} // $ts);
        $ts{$shard} = $ts;
        $count{$word}++;
        $at{$word} //= "$shard/$offset";
        $at{"$shard/$offset"} = $word;
        next unless $word =~ m{^[^/]+/(d\d+)/(\d+)/(\d+)$};
        push @foreign, "$shard/$offset" if $device ne $1 || !$self->{sent}{$word};
        # What is sent again stands there twice, but its first time comes before everything that was sent behind it.
        my $line = "$shard $1 $key";
        next if $seen{"$line $word"}++ || $self->{refused}{$word};
        push @disorder, "$shard/$offset" if $3 < ($order{$line} // 0);
        $order{$line} = $3;
    }
    note_faults(\@faults, 'offsets missing or twice', @holes);
    note_faults(\@faults, 'times step back', @back);
    note_faults(\@faults, 'out of the order of sending', @disorder);
    note_faults(\@faults, 'records of another device, or that nobody sent', @foreign);
    note_faults(\@faults, 'acknowledged and lost', grep { !$count{$_} } keys %{ $self->{acked} });
    note_faults(\@faults, 'delivered and lost', grep { !$count{$_} } keys %{ $self->{delivered} });
    note_faults(\@faults, 'told one offset, stored at another', grep { ($at{$_} // '') ne $self->{told}{$_} } keys %{ $self->{told} });
    note_faults(\@faults, 'refused and stored', grep { $count{$_} && $self->{sent}{$_} == $self->{refused}{$_} } keys %{ $self->{refused} });
    note_faults(\@faults, 'stored more often than sent', grep { m{/d\d+/} && $count{$_} > ($self->{sent}{$_} // 0) } keys %count);
    note_faults(\@faults, 'SQL records stored twice', grep { m{/(?:append|both|publish)/} && $count{$_} > 1 } keys %count);
    note_faults(\@faults, 'half transactions', grep { m{/ten/} && $count{$_} != 10 } keys %count);
    note_faults(\@faults, 'rolled back and visible', grep { m{/gone/} } keys %count);
    my %both = map { $_ => 1 } split /\n/, $server->sql('SELECT word FROM both_written');
    note_faults(\@faults, 'in the heap table and not in the stream', grep { !$count{$_} } keys %both);
    note_faults(\@faults, 'in the stream and not in the heap table', grep { m{/both/} && !$both{$_} } keys %count);
    $self->check_tails($server, \@faults, \%next, \%at);
    push @faults, $self->verify($server);
    return @faults;
}

# What an observer has seen stays: a tail never goes back, and what stood below it is the same record.
sub check_tails
{
    my ($self, $server, $faults, $next, $at) = @_;

    for my $shard (sort keys %{ $self->{tails} })
    {
        my ($tail, $last) = @{ $self->{tails}{$shard} };
        push @$faults, "shard $shard: the tail was $tail and is " . ($next->{$shard} // 0) if ($next->{$shard} // 0) < $tail;
        my $now = $at->{ "$shard/" . ($tail - 1) } // 'nothing';
        push @$faults, "shard $shard: offset " . ($tail - 1) . " was $last and is $now" if $last ne '-' && $now ne $last;
    }
    my %says = map { split / / } split /\n/, $server->sql("SELECT s || ' ' || fleetlog.tail('telemetry', s) FROM generate_series(0, (SELECT shards FROM fleetlog.stream WHERE name = 'telemetry') - 1) s");
    for my $shard (sort keys %says)
    {
        push @$faults, "shard $shard: tail() says $says{$shard}, the rows end at " . ($next->{$shard} // 0) if $says{$shard} != ($next->{$shard} // 0);
    }
    return;
}

# fleetlog's own check, where the server has it.
sub verify
{
    my ($self, $server) = @_;

    return if $server->sql("SELECT count(*) FROM pg_proc WHERE proname = 'verify' AND pronamespace = 'fleetlog'::regnamespace") eq '0';
    return map { "verify: $_" } split /\n/, $server->sql("SELECT shard, check_name, detail FROM fleetlog.verify('telemetry') WHERE NOT ok");
}

# With nobody at work no value waits any more, and last values are in their table.
sub check_waiting
{
    my ($self) = @_;
    my $s = $self->{server};

    return if $s->sql("SELECT count(*) FROM pg_class WHERE relname = 'state_pending'") eq '0';
    $s->wait_for('SELECT count(*) = 0 FROM fleetlog.state_pending');
    $s->wait_for('SELECT coalesce(sum(keys), 0) = 0 FROM fleetlog.stat_state_last');
    return $self->verify($s);
}

# Rows and pages of a standby that has caught up, against the server's own.
sub check_standby
{
    my ($self, $standby, %opt) = @_;
    my $sum = "SELECT shard, count(*), max(log_offset), md5(string_agg(md5(t::text), '' ORDER BY log_offset)) FROM telemetry t GROUP BY shard ORDER BY 1";
    my @faults;

    $self->{server}->catch_up($standby);
    my ($here, $there) = ($self->{server}->sql($sum), $standby->sql_on_standby($sum));
    push @faults, "the standby's rows differ:\n$here\n-- standby\n$there" if $here ne $there;
    push @faults, $self->different_states($standby);
    push @faults, $self->different_pages($standby) if $opt{pages};
    return @faults;
}

# State tables by key; the worker may write on until both are asked for the same moment.
sub different_states
{
    my ($self, $standby) = @_;
    my $s = $self->{server};
    my @tables = split /\n/, $s->sql("SELECT c.state FROM fleetlog.state_config c");
    my @faults;

    for my $table (@tables)
    {
        my $sum = "SELECT count(*), md5(string_agg(md5(t::text), '' ORDER BY key)) FROM $table t";
        my ($here, $there, $tries) = ('', '-', 0);
        while ($here ne $there && $tries++ < 20)
        {
            $s->catch_up($standby);
            ($here, $there) = ($s->sql($sum), $standby->sql_on_standby($sum));
        }
        push @faults, "state table $table differs on the standby: $here, there $there" if $here ne $there;
    }
    return @faults;
}

# Pages of both servers' files, after a checkpoint of each, without what may differ: LSN, checksum, hint bits, the hole.
sub masked_pages
{
    my ($server, $path) = @_;
    my $bytes = PostgreSQL::Test::Utils::slurp_file($server->node->data_dir . "/$path");
    my @pages;

    for (my $at = 0; $at + 8192 <= length $bytes; $at += 8192)
    {
        my $page = substr $bytes, $at, 8192;
        my ($lower, $upper) = unpack 'x12 v2', $page;
        substr($page, 0, 8) = "\0" x 8;
        substr($page, 8, 2) = "\0\0";
        substr($page, 10, 2) = "\0\0";
        substr($page, $lower, $upper - $lower) = "\0" x ($upper - $lower) if $lower >= 24 && $upper <= 8192 && $lower < $upper;
        push @pages, $page;
    }
    # Pages at the end that were never written need not be there on both.
    pop @pages while @pages && $pages[-1] !~ /[^\0]/;
    return \@pages;
}

sub different_pages
{
    my ($self, $standby) = @_;
    my ($s, @faults, $compared) = ($self->{server});
    my @files = split /\n/, $s->sql("SELECT pg_relation_filepath(relid) FROM pg_partition_tree('telemetry') WHERE isleaf");

    $s->sql('CHECKPOINT');
    $s->catch_up($standby);
    $standby->sql('CHECKPOINT');
    for my $file (@files)
    {
        my ($here, $there) = map { masked_pages($_, $file) } $s, $standby;
        $compared += @$here;
        push @faults, "$file: " . @$here . ' pages, on the standby ' . @$there if @$here != @$there;
        for my $block (0 .. (@$here < @$there ? $#$here : $#$there))
        {
            push @faults, "$file: block $block differs on the standby" if $here->[$block] ne $there->[$block];
        }
    }
    $self->{pages_compared} = $compared;
    return @faults;
}

1;
