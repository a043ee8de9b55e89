# FleetlogTest::Watch: state tables with writers that number what they do to each key, a fleetlog-watch process, and a
# checker that folds what it printed.
#
# Operation n of a key publishes payload n; where n is a multiple of 4 it clears the key. So the event that must follow
# any other one of that key is known, also behind a clear, which carries no number: a gap, a duplicate and a wrong order
# are all seen at once, without asking the writers.
package FleetlogTest::Watch;

use strict;
use warnings;
use Carp qw(confess);
use IPC::Run;
use JSON::PP;

our $CLEAR_EVERY = 4;

# The tables, as users make them: st keeps what is retained below r/, la the last value of everything below l/. And the
# writers: write_keys(n) is one transaction over n keys, which does the same below both.
sub setup
{
    my ($s, $keys) = @_;
    $s->sql(<<SQL);
SELECT fleetlog.create_stream('t', shards => 3);
SELECT fleetlog.create_state('st'), fleetlog.create_state('la');
SELECT fleetlog.mount('r/', 't', state => 'st'), fleetlog.mount('l/', 't', state => 'la', keep => 'last', state_lag => '100 ms');
CREATE TABLE key_count (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO key_count SELECT i FROM generate_series(1, $keys) i;
CREATE FUNCTION write_keys(how_many int) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
    r record;
    topic text;
BEGIN
    FOR r IN UPDATE key_count SET n = n + 1 WHERE id IN (SELECT id FROM key_count WHERE id IN (SELECT 1 + (random() * ($keys - 1))::int FROM generate_series(1, how_many)) ORDER BY id FOR UPDATE) RETURNING id, n LOOP
        topic := CASE WHEN r.id % 2 = 0 THEN 'even/' ELSE 'odd/' END || r.id;
        PERFORM fleetlog.publish('r/' || topic, CASE WHEN r.n % $CLEAR_EVERY = 0 THEN '' ELSE r.n::text::bytea END, retain => true);
        PERFORM fleetlog.publish('l/' || topic, CASE WHEN r.n % $CLEAR_EVERY = 0 THEN '' ELSE r.n::text::bytea END, retain => r.n % $CLEAR_EVERY = 0);
    END LOOP;
    IF random() < 0.05 THEN RAISE EXCEPTION 'rolled back on purpose' USING ERRCODE = 'P0002'; END IF;
END \$\$;
-- Is a state that watch() tells exactly what the records below its position imply? Keys that differ.
CREATE FUNCTION cut_faults(state regclass, prefix text) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
    told jsonb;
    at jsonb;
BEGIN
    SELECT coalesce(jsonb_object_agg(key, fleetlog.text(payload)) FILTER (WHERE event = 'row'), '{}'), (array_agg(position) FILTER (WHERE event = 'end-snapshot'))[1] INTO told, at FROM fleetlog.watch(state);
    RETURN (SELECT string_agg(key || ': told ' || coalesce(told ->> key, 'none') || ', last record ' || last, '; ') FROM
        (SELECT DISTINCT ON (key) key, fleetlog.text(payload) AS last FROM t
            WHERE key LIKE prefix || '%' AND log_offset < (at -> 'streams' -> 'public.t' -> shard::text ->> 'offset')::bigint ORDER BY key, ts DESC, shard DESC, log_offset DESC) e
        WHERE coalesce(told ->> key, '') <> last);
END \$\$;
CREATE PROCEDURE write_many(transactions int) LANGUAGE plpgsql AS \$\$
BEGIN
    FOR i IN 1 .. transactions LOOP
        BEGIN
            PERFORM write_keys(1 + (random() * random() * 20)::int);
        EXCEPTION WHEN no_data_found THEN NULL;
        END;
        COMMIT;
    END LOOP;
END \$\$;
SQL
    return;
}

# A watcher whose output goes to a file, as a consumer would keep it.
sub start
{
    my ($class, $s, $table, $file, @options) = @_;
    my $self = bless { file => $file, err => "$file.err" }, $class;
    $self->{run} = IPC::Run::start(
        [ 'fleetlog-watch', '-d', $s->node->connstr('fleetlog'), @options, $table ],
        '<', \undef, '>', $file, '2>', $self->{err});
    return $self;
}

sub lines
{
    my ($self) = @_;
    open my $f, '<', $self->{file} or confess("$self->{file}: $!");
    local $/;
    my $text = <$f> // '';
    close $f;
    # A killed process may leave half a line behind.
    $text =~ s/[^\n]*\z//;
    return split /\n/, $text;
}

sub stop
{
    my ($self) = @_;
    $self->{run}->signal('TERM');
    $self->{run}->finish;
    return $self->{run}->result(0);
}

sub kill9
{
    my ($self) = @_;
    $self->{run}->kill_kill(grace => 0);
    return;
}

sub errors
{
    my ($self) = @_;
    return PostgreSQL::Test::Utils::slurp_file($self->{err});
}

# ---- the checker ----

package FleetlogTest::Watch::Fold;

# every => 0: the table follows the log and leaves values out; numbers only rise. A key that ends in /end marks the end.
sub new
{
    my ($class, %opt) = @_;
    return bless {
        every => $opt{every} // 1, state => {}, next => {}, faults => [], position => undef, snapshots => 0, changes => 0, ended => 0,
        json => JSON::PP->new->utf8->canonical }, $class;
}

sub fault
{
    my ($self, $text) = @_;
    push @{ $self->{faults} }, $text if @{ $self->{faults} } < 5;
    return;
}

# What may come next of a key: a number, or for a key that was absent in a snapshot, any that begins a new life.
sub expect
{
    my ($self, $key, $n) = @_;
    my $want = $self->{next}{$key};
    return if !defined $want;
    if (!$self->{every})
    {
        $self->fault("$key: $n after $want") if $want ne 'any' && $n < $want;
    }
    elsif ($want eq 'any')
    {
        $self->fault("$key: $n follows a clear") unless $n % $FleetlogTest::Watch::CLEAR_EVERY == 1;
    }
    else
    {
        $self->fault("$key: expected $want, got $n") unless $want == $n;
    }
    return;
}

sub on_snapshot
{
    my ($self, $e) = @_;
    if ($e->{event} eq 'begin-snapshot')
    {
        $self->{between} = {};
        $self->{snapshots}++;
    }
    elsif ($e->{event} eq 'row')
    {
        $self->fault('row outside of a snapshot') unless $self->{between};
        $self->fault("$e->{key}: two rows") if exists $self->{between}{ $e->{key} };
        $self->{between}{ $e->{key} } = $e->{payload};
    }
    else
    {
        $self->{state} = delete $self->{between};
        # Absent keys: their clear is not numbered here, so any set that begins a new life may follow.
        $self->{next}{$_} = 'any' for keys %{ $self->{next} };
        $self->{absent} = 'any';
        $self->{next}{$_} = $self->{state}{$_} + 1 for grep { !/\/end$/ } keys %{ $self->{state} };
    }
    return;
}

sub on_set
{
    my ($self, $key, $n) = @_;
    $self->{changes}++;
    $self->{state}{$key} = $n;
    return if $key =~ /\/end$/;
    $self->{next}{$key} //= $self->{absent};
    $self->expect($key, $n);
    $self->fault("$key: $n must be a clear") if $n % $FleetlogTest::Watch::CLEAR_EVERY == 0;
    $self->{next}{$key} = $n + 1;
    return;
}

sub on_clear
{
    my ($self, $key) = @_;
    my $n = $self->{next}{$key};
    $self->{changes}++;
    if ($self->{every})
    {
        $self->fault("$key: cleared while expecting " . ($n // 'nothing')) unless defined $n && $n ne 'any' && $n % $FleetlogTest::Watch::CLEAR_EVERY == 0;
        $self->{next}{$key} = defined $n && $n ne 'any' ? $n + 1 : 'any';
    }
    else
    {
        $self->fault("$key: cleared and was not there") unless exists $self->{state}{$key};
    }
    delete $self->{state}{$key};
    return;
}

sub line
{
    my ($self, $line) = @_;
    my $e = eval { $self->{json}->decode($line) };
    if (!$e) { $self->fault("no JSON: $line"); return; }
    my $key = $e->{key};

    $self->{position} = $self->{json}->encode($e->{position}) if $e->{position} && $e->{event} ne 'row';
    $self->{ended} = 1 if defined $key && $key =~ /\/end$/;
    $self->fault("$e->{event} between the marks") if $self->{between} && $e->{event} !~ /snapshot|row/;
    # By decoding and by watch() alike: where the record is, whatever it did.
    $self->fault("$line has no place") if $e->{event} =~ /^(row|set|clear)$/ && !defined $e->{log_offset};
    if ($e->{event} =~ /^(begin-snapshot|row|end-snapshot)$/) { $self->on_snapshot($e) }
    elsif ($e->{event} eq 'set') { $self->on_set($key, $e->{payload}) }
    elsif ($e->{event} eq 'clear') { $self->on_clear($key) }
    elsif ($e->{event} ne 'progress') { $self->fault("unknown event $e->{event}") }
    return;
}

# A watcher died: what it printed between the marks without the second one counts for nothing.
sub interrupted
{
    my ($self) = @_;
    delete $self->{between};
    return;
}

# '' when the folded state is what the table has now.
sub differs_from
{
    my ($self, $s, $table, $where) = @_;
    my %have = map { split /\|/ } split /\n/, $s->sql("SELECT key || '|' || fleetlog.text(payload) FROM $table WHERE $where");
    my @wrong = grep { ($self->{state}{$_} // '') ne ($have{$_} // '') } keys %{ { %have, %{ $self->{state} } } };
    return join ' ', map { "$_: folded " . ($self->{state}{$_} // 'none') . ', table ' . ($have{$_} // 'none') } splice @wrong, 0, 3;
}

1;
